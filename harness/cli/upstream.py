"""`harness upstream`: what became of the engines' own tests, and what another release of an engine changes in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.errors import UsageProblem
from harness.verdicts import EXIT_DIFFERENCE, EXIT_OK

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

WIDTH = 240
"""A pipe has no width to fold to: there, every cell keeps its lines."""

_TREE = click.Path(path_type=Path)
_json = click.option(
    "--json", "json_to", metavar="FILE|-", help="Write JSON; with - nothing else is printed."
)


@click.group("upstream")
def command() -> None:
    """Show the fate of each upstream test, compare another release with the inventory, and bring it up to date."""


@command.command("status")
@click.option("--engine", "engines", multiple=True, metavar="NAME", help="Only this engine; may be repeated.")
@click.option("--fate", "fates", multiple=True, metavar="FATE", help="Only tests of this fate, one by one.")
@_json
def status(engines: tuple[str, ...], fates: tuple[str, ...], json_to: str | None) -> int:
    """Show what became of each upstream test. Exit 1 while one of them is unaccounted."""
    from harness.upstream.status import status as fates_of
    from harness.upstream.text import show_status

    report = fates_of(engines, fates)
    _write(report, json_to, lambda console: show_status(report, console, tests=bool(engines or fates)))
    return EXIT_DIFFERENCE if report.unaccounted else EXIT_OK


@command.command("diff")
@click.argument("engine")
@click.option(
    "--tree", type=_TREE, required=True, metavar="PATH", help="A checkout, an sdist or a wheel of the engine."
)
@click.option(
    "--against", type=_TREE, metavar="PATH", help="Another tree to compare with, for the inventory."
)
@_json
def diff(engine: str, tree: Path, against: Path | None, json_to: str | None) -> int:
    """Show what the tree adds, removes, varies or bounds otherwise than the inventory. Exit 1 when it does.

    ENGINE is one of those that `status` lists.
    """
    from harness.upstream.diff import diff as difference
    from harness.upstream.text import show_diff

    report = difference(engine, tree, against)
    _write(report, json_to, lambda console: show_diff(report, console))
    return EXIT_DIFFERENCE if report.differs else EXIT_OK


@command.command("update")
@click.argument("engine")
@click.option(
    "--tree", type=_TREE, required=True, metavar="PATH", help="A checkout, an sdist or a wheel of the engine."
)
@click.option("--release", metavar="NAME", help="What to call the tree (default: the version in its name).")
@click.option("--dry-run", is_flag=True, help="Print the diff and write nothing.")
@click.option(
    "--inventory", type=_TREE, metavar="DIR", help="Where the inventory lies (default: this repository's)."
)
def update(engine: str, tree: Path, release: str | None, dry_run: bool, inventory: Path | None) -> int:
    """Rewrite the inventory of ENGINE after a tree, for review: fates and words stay, new tests are unaccounted.

    Exit 1 when there is something to review, or a file of the tree could not be read.
    """
    from harness.report.output import write_text
    from harness.upstream.text import changed_lines, not_read
    from harness.upstream.update import update as updated

    if inventory is not None and not inventory.is_dir():
        raise UsageProblem(f"--inventory {inventory}: there is no such folder")
    found = updated(engine, tree, inventory, release)
    for rewrite in found.rewrites:
        if dry_run:
            click.echo(rewrite.diff(), nl=False)
        else:
            write_text("update", str(rewrite.path), rewrite.after)
            added, removed = changed_lines([rewrite.diff()])
            click.echo(f"{rewrite.path}: {added} lines added, {removed} removed")
    for line in not_read(found.unreadable):
        click.echo(line, err=dry_run)
    if found.rewrites or found.unreadable:
        return EXIT_DIFFERENCE
    click.echo(f"{engine}: the inventory is what the tree says")
    return EXIT_OK


def _write(report: BaseModel, json_to: str | None, render: Callable[[Console], Any]) -> None:
    from harness.report.output import write_text
    from harness.report.strict_json import dumps
    from harness.report.terminal import show

    if json_to is not None:
        text = dumps(report.model_dump(mode="json", by_alias=True))
        if json_to == "-":
            click.echo(text, nl=False)
            return
        write_text("--json", json_to, text)
    show(render, width=WIDTH)
