"""The matrix as people read it: terminal tables, Markdown, one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import groupby

from rich.table import Table
from rich.text import Text

from harness.matrix.model import DimensionState, Matrix, MatrixRow
from harness.matrix.states import MEANINGS, State
from harness.rows.load import families
from harness.rows.model import Dimension
from harness.text import printable

STYLES = {
    State.PASS: "bold green",
    State.EMULATED: "cyan",
    State.DEBT: "yellow",
    State.STALE: "magenta",
    State.ABSENT: "dim",
    State.FAIL: "bold red",
    State.NOT_APPLICABLE: "dim",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Coverage matrix</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2rem; }}
table {{ border-collapse: collapse; margin-bottom: 2rem; }}
th, td {{ border: 1px solid #ccc; padding: .2rem .5rem; text-align: left; vertical-align: top; white-space: pre-line; }}
th {{ background: #f2f2f2; position: sticky; top: 0; }}
.pass {{ background: #c6efce; }} .emulated {{ background: #cfe8f3; }} .debt {{ background: #fff2cc; }}
.stale {{ background: #e4d7f0; }} .fail {{ background: #f8b4b4; }} .absent, .na {{ color: #777; }}
small {{ color: #555; }}
</style>
</head>
<body>
<h1>Coverage matrix</h1>
{summary}
<dl>{meanings}</dl>
{tables}
</body>
</html>
"""


def tables(matrix: Matrix) -> list[Table]:
    """One table a family: the state of each dimension, and below it the backends that show something else."""
    found = []
    for title, members in _by_family(matrix.rows):
        table = Table(title=title, title_justify="left")
        table.add_column("row", no_wrap=True)
        for dimension in Dimension:
            table.add_column(dimension.value)
        for row in members:
            table.add_row(Text(_name(row)), *(_short_cell(found) for found in row.dimensions.values()))
        found.append(table)
    return found


def summary(matrix: Matrix) -> list[str]:
    """A line a dimension with the number of rows in each state, and one on what it was computed from."""
    lines = []
    for dimension, counts in matrix.counts.items():
        shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        lines.append(f"{dimension.value:<12} {shown or 'no row'}")
    lines.append(
        f"computed from {matrix.required_cases} required cases and {matrix.ledger_lines} ledger lines"
    )
    return lines


def markdown(matrix: Matrix) -> str:
    """One Markdown table a family, then the summary."""
    lines: list[str] = []
    headings = ("row", *(dimension.value for dimension in Dimension))
    for title, members in _by_family(matrix.rows):
        lines += [f"### {title}", "", _markdown_line(headings), _markdown_line(["---"] * len(headings))]
        lines += [_markdown_line([_name(row), *map(_cell, row.dimensions.values())]) for row in members]
        lines.append("")
    return "\n".join([*lines, *(f"    {line}" for line in summary(matrix)), ""])


def html(matrix: Matrix) -> str:
    """One page, every text escaped. What keeps a cell from `pass` is shown below its state."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("row", *(each.value for each in Dimension)))
    parts = []
    for title, members in _by_family(matrix.rows):
        body = "\n".join(
            f"<tr><td>{escape(_name(row))}\n<small>{escape(printable(row.item))}</small></td>"
            f"{''.join(map(_html_cell, row.dimensions.values()))}</tr>"
            for row in members
        )
        parts.append(f"<h2>{escape(title)}</h2>\n<table>\n<tr>{head}</tr>\n{body}\n</table>")
    return _PAGE.format(
        summary="".join(f"<p>{escape(line)}</p>" for line in summary(matrix)),
        meanings="".join(
            f"<dt>{escape(state)}</dt><dd>{escape(words)}</dd>" for state, words in MEANINGS.items()
        ),
        tables="\n".join(parts),
    )


def _by_family(rows: Iterable[MatrixRow]) -> list[tuple[str, list[MatrixRow]]]:
    titles = families()
    return [(titles[name], list(members)) for name, members in groupby(rows, key=lambda row: row.family)]


def _name(row: MatrixRow) -> str:
    return f"{row.id} (= {row.alias_of})" if row.alias_of else row.id


def _short_cell(found: DimensionState) -> Text:
    lines = [Text(found.state, style=STYLES[found.state])]
    lines += [
        Text.assemble(f"{backend} ", (state, STYLES[state]))
        for backend, state in found.backends.items()
        if state not in (found.state, State.ABSENT)
    ]
    return Text("\n").join(lines)


def _cell(found: DimensionState) -> str:
    """The state, then each backend with its own where there are several."""
    backends = [f"{backend}: {state}" for backend, state in found.backends.items()]
    return "\n".join([found.state, *(backends if len(backends) > 1 else [])])


def _html_cell(found: DimensionState) -> str:
    shade = "na" if found.state is State.NOT_APPLICABLE else found.state.value
    why = f"\n<small>{escape(printable(found.why, 400))}</small>" if found.why else ""
    return f'<td class="{shade}">{escape(_cell(found))}{why}</td>'


def _markdown_line(values: Iterable[str]) -> str:
    escaped = (escape(value, quote=False).replace("|", "\\|").replace("\n", "<br>") for value in values)
    return f"| {' | '.join(escaped)} |"
