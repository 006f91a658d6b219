"""`harness rows`: the leaves of the coverage matrix, and what each must show on which backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from harness.errors import UsageProblem

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@click.command()
@click.option("--family", metavar="F", help="Only the rows of one family, such as gguf-encodings or mlx.")
@click.option(
    "--json", "json_to", metavar="FILE|-", help="Write the rows as JSON; with - nothing else is printed."
)
@click.option("--markdown", is_flag=True, help="Print Markdown tables.")
@click.option("--html", "html_to", metavar="FILE", help="Write one self-contained HTML page.")
def command(family: str | None, json_to: str | None, markdown: bool, html_to: str | None) -> None:
    """List the coverage rows: what can be claimed, on which backends, judged by which oracle."""
    from harness.report.output import write_text
    from harness.report.strict_json import dumps
    from harness.rows import load, render

    if json_to == "-" and markdown:
        raise UsageProblem("--json - and --markdown both write to stdout: give --json a file")
    rows = list(load.rows_of_family(family).values())
    if json_to is not None:
        document = load.rows_document(rows).model_dump(mode="json", by_alias=True)
        if json_to == "-":
            click.echo(dumps(document), nl=False)
        else:
            write_text("--json", json_to, dumps(document))
    if html_to is not None:
        write_text("--html", html_to, render.html(rows))
    if json_to == "-":
        return
    if markdown:
        click.echo(render.markdown(rows), nl=False)
        return
    _print_tables(render.tables(rows), render.summary(rows))


def _print_tables(tables: Sequence[RenderableType], summary: str) -> None:
    from harness.report.terminal import show

    def render(console: Console) -> None:
        for table in tables:
            console.print(table)
        console.print(summary, highlight=False)

    # A pipe has no width to fold to: there, every cell keeps its lines.
    show(render, width=240)
