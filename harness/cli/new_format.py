"""`harness new-format`: everything that belongs to a format, as stubs that fail until they are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.newformat.plan import Plan
    from harness.newformat.request import Kind


@click.command("new-format")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["encoding", "method"]),
    default="encoding",
    show_default=True,
    help="A storage layout of blocks, or a checkpoint method of an engine.",
)
@click.option(
    "--dialect", metavar="NAME", help="Whose reading of the name it is, where NAME does not say it."
)
@click.option("--block-elems", type=int, metavar="N", help="Weights in a block of an encoding.")
@click.option("--block-bytes", type=int, metavar="N", help="Bytes of a block of an encoding.")
@click.option("--row", metavar="ID", help="The coverage row: one that names the format, or a new one.")
@click.option(
    "--into",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The tree to write into (default: this one).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option(
    "--check", is_flag=True, help="List what is left of a format that was begun. Exit 1: something is."
)
def command(
    name: str,
    kind: Kind,
    dialect: str | None,
    block_elems: int | None,
    block_bytes: int | None,
    row: str | None,
    into: Path | None,
    dry_run: bool,
    check: bool,
) -> int:
    """Begin a format: NAME is <dialect>.<name>, both in lower case.

    Writes the unit's folder with reference, kernels and known answers, its cases and its row. Every stub fails, and
    --check and `harness audit` name each one, until it is written. All of it is written, or nothing.
    """
    from harness.newformat.plan import plan
    from harness.newformat.request import request
    from harness.newformat.write import write
    from harness.paths import REPOSITORY
    from harness.verdicts import EXIT_OK

    tree = (into or REPOSITORY).resolve()
    if check:
        return _check(name if dialect is None else f"{dialect}.{name}", tree)
    wanted = request(
        name, kind=kind, dialect=dialect, block_elems=block_elems, block_bytes=block_bytes, row=row
    )
    found = plan(wanted, tree)
    if not dry_run:
        write(found, tree)
    _show(found, dry_run)
    return EXIT_OK


def _check(name: str, tree: Path) -> int:
    from harness.audit.unfinished import of_unit
    from harness.errors import UsageProblem
    from harness.text import printable
    from harness.verdicts import EXIT_DIFFERENCE, EXIT_OK

    folders = [path for path in (tree / "kernels").glob("*/*") if f"{path.parent.name}.{path.name}" == name]
    if not folders or not any(folders[0].glob("*.yaml")):
        raise UsageProblem(
            f"there is no unit {printable(name)} in {tree / 'kernels'}; NAME is <dialect>.<name>"
        )
    found = list(of_unit(tree, folders[0]))
    for finding in found:
        click.echo(printable(f"{finding.file}:{finding.line}: {finding.message}", 400))
    click.echo(f"{name}: {len(found)} left" if found else f"{name}: nothing is left")
    return EXIT_DIFFERENCE if found else EXIT_OK


def _show(plan: Plan, dry_run: bool) -> None:
    from harness.newformat.tree import tree_of

    words = "would write" if dry_run else "wrote"
    click.echo(f"{plan.request.format}: {words} {len(plan.new)} files, added to {len(plan.changed)}")
    for line in tree_of(plan):
        click.echo(f"  {line}")
    if not dry_run:
        click.echo(
            f"next: docs/new-format.md; what is left: harness new-format {plan.request.format} --check"
        )
