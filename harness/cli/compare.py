"""`harness compare`: a checkpoint, top to bottom, against a pinned engine."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.compare import Progress
    from harness.report.compare_model import CompareReport

LEVELS = ("recognize", "tensors", "layers", "logits", "tokens")
SERVED = ("recognize", "tensors")


@click.command("compare")
@click.option(
    "--checkpoint", "where", required=True, metavar="PATH|demo:NAME", help="The file, or a demo checkpoint."
)
@click.option(
    "--oracle", "engine", required=True, metavar="NAME", help="The engine that judges (harness oracles list)."
)
@click.option(
    "--subject",
    default="reference",
    show_default=True,
    metavar="NAME|module:function|FILE.py:function|FILE.yaml",
    help="What is under test.",
)
@click.option(
    "--level", type=click.Choice(LEVELS), default="tensors", show_default=True, help="The last rung to climb."
)
@click.option("--device", default="cpu", show_default=True, metavar="cpu", help="Where the subject runs.")
@click.option("--tensors", metavar="GLOB", help="Only tensors whose name matches.")
@click.option(
    "--json", "json_file", metavar="FILE|-", help="Write the report as JSON; '-' writes JSON alone to stdout."
)
@click.option("--html", "html_file", metavar="FILE", help="Write the report as one HTML page.")
@click.option("--repro", metavar="DIR", help="On a difference, write a reproducer into this folder.")
@click.option("--offline", is_flag=True, help="Never download or install.")
@click.option(
    "--seed", type=int, help="Seed of what is drawn by chance; taken from the checkpoint's digest by default."
)
def command(
    where: str,
    engine: str,
    subject: str,
    level: str,
    device: str,
    tensors: str | None,
    json_file: str | None,
    html_file: str | None,
    repro: str | None,
    offline: bool,
    seed: int | None,
) -> int:
    """Compare a checkpoint, top to bottom, with a pinned engine.

    Every tensor is decoded by the subject and by the engine on the same bytes and compared bit for bit; a second,
    independent oracle has to agree with the engine. The first culprit is named down to row, block and lane.
    """
    from harness.compare import Options, run
    from harness.containers import open_checkpoint
    from harness.demo import PREFIX, load_demo, resolve_checkpoint
    from harness.errors import Unavailable, UsageProblem
    from harness.subjects.resolve import check_subject, resolve
    from oracles.pins import pins_for
    from oracles.pool import Pool

    # All that can be wrong with the command line or the file comes before anything is fetched or started.
    _check_outputs(json_file, html_file)
    if not re.fullmatch(r"cpu|metal|cuda:\d+", device):
        raise UsageProblem(f"--device {device}: wanted cpu, cuda:N or metal")
    names = pins_for(engine, level)
    check_subject(subject)
    if where.startswith(PREFIX):
        load_demo(where.removeprefix(PREFIX))
    with contextlib.ExitStack() as stack:
        if not where.startswith(PREFIX):
            checkpoint = stack.enter_context(open_checkpoint(where))
        if device != "cpu":
            raise Unavailable(
                f"--device {device}: no kernel of this version runs there; cpu is the only device so far"
            )
        if not names or level not in SERVED:
            raise Unavailable(
                f"--level {level}: no pinned oracle of {engine} serves this level in this version"
            )
        if where.startswith(PREFIX):
            checkpoint = stack.enter_context(
                open_checkpoint(resolve_checkpoint(where, offline=offline, tell=_tell))
            )
        options = Options(level, tensors, seed, Path(repro) if repro else None)
        pool = stack.enter_context(Pool(offline=offline, progress=_tell))
        judges = [pool.get(name) for name in names]
        playing = resolve(subject, level, pool)
        if playing.name in names:
            raise UsageProblem(
                f"--subject {subject}: {playing.name} is a judge of this run; it would agree with itself"
            )
        stack.callback(playing.close)
        report = run(checkpoint, playing, judges, options, stack.enter_context(_progress()))
    _write(report, json_file, html_file)
    return report.exit_code


def _check_outputs(json_file: str | None, html_file: str | None) -> None:
    from harness.errors import UsageProblem

    for option, target in (("--json", json_file), ("--html", html_file)):
        if target is None or (option, target) == ("--json", "-"):
            continue
        if not target or target == "-":
            raise UsageProblem(f"{option} {target!r}: wanted the name of a file")
        if Path(target).is_dir():
            raise UsageProblem(f"{option} {target}: it is a folder")
        if not Path(target).absolute().parent.is_dir():
            raise UsageProblem(f"{option} {target}: the folder does not exist")
    if json_file and html_file and Path(json_file).absolute() == Path(html_file).absolute():
        raise UsageProblem(f"--json and --html both name {json_file}")


def _tell(message: str) -> None:
    click.echo(f"harness: {message}", err=True)


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """A live bar on a terminal, silence elsewhere."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from harness.text import printable

    columns = (
        TextColumn("comparing"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[name]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, name="")

        def step(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, name=Text(printable(name, 60)).plain)

        yield step


def _write(report: CompareReport, json_file: str | None, html_file: str | None) -> None:
    from rich.console import Console

    from harness.report import terminal
    from harness.report.compare_text import show
    from harness.report.output import write_text
    from harness.report.strict_json import dumps

    if json_file == "-":
        click.echo(dumps(report.as_json()), nl=False)
    else:
        terminal.show(lambda console: show(report, console), width=160)
        if json_file:
            write_text("--json", json_file, dumps(report.as_json()))
    if html_file:
        page = Console(record=True, width=160, file=io.StringIO())
        show(report, page)
        write_text("--html", html_file, page.export_html())
