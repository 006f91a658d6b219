"""`harness matrix`: what each coverage row may claim, computed from evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.errors import UsageProblem

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@click.option("--family", metavar="F", help="Only the rows of one family, such as gguf-encodings or mlx.")
@click.option(
    "--json", "json_to", metavar="FILE|-", help="Write the matrix as JSON; with - nothing else is printed."
)
@click.option("--markdown", is_flag=True, help="Print Markdown tables.")
@click.option("--html", "html_to", metavar="FILE", help="Write one self-contained HTML page.")
def command(family: str | None, json_to: str | None, markdown: bool, html_to: str | None) -> None:
    """Show what each row may claim: computed from the required cases, the ledger and the files, never typed."""
    from harness.matrix import render
    from harness.matrix.compute import compute
    from harness.report.output import write_text
    from harness.report.strict_json import dumps
    from harness.rows.load import rows_of_family

    if json_to == "-" and markdown:
        raise UsageProblem("--json - and --markdown both write to stdout: give --json a file")
    matrix = compute(rows_of_family(family).values())
    text = dumps(matrix.model_dump(mode="json", by_alias=True)) if json_to is not None else ""
    if html_to is not None:
        write_text("--html", html_to, render.html(matrix))
    if json_to == "-":
        click.echo(text, nl=False)
        return
    if json_to is not None:
        write_text("--json", json_to, text)
    if markdown:
        click.echo(render.markdown(matrix), nl=False)
        return
    from harness.report.terminal import show

    def write(console: Console) -> None:
        for table in render.tables(matrix):
            console.print(table)
        for line in render.summary(matrix):
            console.print(line, highlight=False)

    # A pipe has no width to fold to: there, every cell keeps its lines.
    show(write, width=240)
