"""`harness bench`: time a recipe's arms on the same bytes, verified first, under a lock."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.bench.run import Progress
    from harness.report.bench_model import BenchReport


@click.command("bench")
@click.option(
    "--recipe",
    "recipe_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What is timed (default: recipes/perf/ggml-decode-cpu.yaml).",
)
@click.option("--cases", metavar="GLOB", help="Only the cases of the recipe whose ID matches.")
@click.option(
    "--json", "json_file", metavar="FILE|-", help="Write the report as JSON; '-' writes JSON alone to stdout."
)
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where runs are kept (default: results/runs).",
)
@click.option("--no-evidence", is_flag=True, help="Keep no evidence of this run.")
@click.option(
    "--timeout", type=float, metavar="S", help="Wait S seconds for the lock (exit 3). Default: for ever."
)
@click.option("--offline", is_flag=True, help="Never download or install.")
def command(
    recipe_file: Path | None,
    cases: str | None,
    json_file: str | None,
    runs: Path | None,
    no_evidence: bool,
    timeout: float | None,
    offline: bool,
) -> int:
    """Time our kernels and the engines on the same bytes.

    Every result is verified before it is timed; the arms take turns under a lock; the oracle is timed against itself,
    which is the noise. Exit: 0 measured, 1 a wrong result or a floor that was missed, 2 bad usage, 3 no figure.
    """
    from harness.bench import recipe as recipes
    from harness.bench.run import Request, run
    from harness.errors import Unavailable
    from harness.evidence.run import RUNS
    from harness.lock import announcer, cpu_lock
    from oracles.pool import Pool

    path = recipe_file or recipes.DEFAULT
    recipe = recipes.load_recipe(path)
    works = recipe.chosen(cases)
    if recipe.backend != "cpu":
        raise Unavailable(f"{path}: backend {recipe.backend}: this version times the cpu alone")
    keep = None if no_evidence else runs or RUNS
    request = Request(recipe, path, works, keep, ("harness", *sys.argv[1:]))
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Pool(offline=offline, progress=_tell))
        for arm in recipe.arms:
            if arm.provider != "reference":
                pool.get(arm.provider)
        held = stack.enter_context(cpu_lock(timeout, announcer(_tell, name="the CPU lock")))
        report = run(request, pool, held, stack.enter_context(_progress()))
    _write(report, json_file)
    return report.exit_code


def _tell(message: str) -> None:
    click.echo(f"harness: {message}", err=True)


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """A live line on a terminal, silence elsewhere."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        yield lambda name, done, total: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda name, done, total: status.update(f"{done + 1} of {total}: {name}")


def _write(report: BenchReport, json_file: str | None) -> None:
    from harness.report import terminal
    from harness.report.bench_text import show
    from harness.report.output import write_text
    from harness.report.strict_json import dumps

    text = dumps(report.model_dump(mode="json", by_alias=True)) if json_file else ""
    if json_file == "-":
        click.echo(text, nl=False)
        return
    terminal.show(lambda console: show(report, console), width=160)
    if json_file:
        write_text("--json", json_file, text)
