"""`harness oracles`: which engines are pinned, install them, and say what is wrong with one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.errors import Unavailable

if TYPE_CHECKING:
    from oracles.doctor import Examination
    from oracles.pins import Pin

EXIT_UNABLE = 3


@click.group("oracles")
def command() -> None:
    """List, install and check the pinned engines."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def list_command(as_json: bool) -> None:
    """Show every pin: its package, what it judges, whether it is installed, how large it is."""
    from oracles.install import environment_path, inspect
    from oracles.pins import load_pins

    pins = list(load_pins().values())
    states = {pin.name: str(inspect(pin)[0]) for pin in pins}
    sizes = {pin.name: _size(environment_path(pin)) for pin in pins}
    if as_json:
        rows = [
            {
                **pin.model_dump(include={"name", "package", "version", "role", "levels", "dialects"}),
                "state": states[pin.name],
                "bytes": sizes[pin.name],
                "path": str(environment_path(pin)),
            }
            for pin in pins
        ]
        click.echo(json.dumps({"schema": 1, "oracles": rows}, indent=1))
        return
    _table(
        ("oracle", "package", "role", "levels", "state", "size"),
        [
            (
                *(
                    pin.name,
                    f"{pin.package} {pin.version}",
                    pin.role,
                    ", ".join(pin.levels),
                    states[pin.name],
                ),
                f"{sizes[pin.name] / 1e6:.0f} MB" if sizes[pin.name] else "-",
            )
            for pin in pins
        ],
    )


@command.command("install")
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option("--offline", is_flag=True, help="Download nothing: fail when one is not installed.")
def install_command(names: tuple[str, ...], offline: bool) -> None:
    """Install the oracles named, or all of them, from their hash-locked requirements.

    One that cannot be installed does not keep the others from it; the exit is 3 then, after all were tried.
    """
    from oracles.install import ensure, installed

    failed: list[str] = []
    for pin in _chosen(names):
        already = installed(pin) is not None
        try:
            with _progress() as tell:
                environment = ensure(pin, offline=offline, progress=tell)
        except Unavailable as problem:
            failed.append(str(problem))
            continue
        what = "was installed already" if already else "installed"
        click.echo(f"{pin.name}  {pin.package} {pin.version}  {what}  {environment.path}")
    if failed:
        raise Unavailable("; ".join(failed))


@command.command("doctor")
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def doctor_command(names: tuple[str, ...], as_json: bool) -> int:
    """Check the oracles named, or all: environment, file hashes, start, known answers op by op.

    Exit 0 when every one is usable, 3 when something is missing or broken.
    """
    from oracles.doctor import examine

    examinations = [examine(pin) for pin in _chosen(names)]
    if as_json:
        report = {
            "schema": 1,
            "ok": all(examination.ok for examination in examinations),
            "oracles": [examination.as_json() for examination in examinations],
        }
        click.echo(json.dumps(report, indent=1, allow_nan=False))
    else:
        for examination in examinations:
            _show(examination)
    return 0 if all(examination.ok for examination in examinations) else EXIT_UNABLE


def _chosen(names: Sequence[str]) -> list[Pin]:
    from oracles.pins import load_pins, pin

    return [pin(name) for name in dict.fromkeys(names)] if names else list(load_pins().values())


def _show(examination: Examination) -> None:
    pin = examination.pin
    color = False if os.environ.get("NO_COLOR") else None
    title = click.style(pin.name, bold=True)
    click.echo(f"{title}  {pin.package} {pin.version}  {examination.state}", color=color)
    for check in examination.checks:
        mark = click.style("ok  ", fg="green") if check.ok else click.style("FAIL", fg="red")
        click.echo(f"  {mark}  {check.check}: {check.detail}", color=color)
        if check.mend:
            click.echo(f"        to mend: {check.mend}", color=color)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A live line on a terminal, silence elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _line: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("") as status:
        yield lambda line: status.update(escape(line))


def _size(path: Path) -> int:
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir()) if path.is_dir() else 0


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal; when piped, one line a row with two spaces between columns and no frame."""
    if not sys.stdout.isatty():
        widths = [max(len(line[at]) for line in (head, *rows)) for at in range(len(head))]
        for line in (head, *rows):
            click.echo(
                "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            )
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
