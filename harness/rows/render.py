"""The rows as people read them: a terminal table, Markdown, one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import groupby

from rich.table import Table
from rich.text import Text

from harness.rows.load import families, rows_document
from harness.rows.model import Coverage, Dimension, Row

HEADINGS = ("row", "item", "encodings", "bits", *(name.value for name in Dimension))

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Coverage rows</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2rem; }}
table {{ border-collapse: collapse; margin-bottom: 2rem; }}
th, td {{ border: 1px solid #ccc; padding: .2rem .5rem; text-align: left; vertical-align: top; white-space: pre-line; }}
th {{ background: #f2f2f2; position: sticky; top: 0; }}
</style>
</head>
<body>
<h1>Coverage rows</h1>
<p>{summary}</p>
{tables}
</body>
</html>
"""


def summary(rows: Iterable[Row]) -> str:
    """How many rows of which origin, in a line."""
    counts = rows_document(rows).counts
    return (
        f"{counts['total']} rows: {counts['upstream']} upstream ({counts['aliases']} of them aliases), "
        f"{counts['ours']} ours; {counts['claimable']} can claim something"
    )


def cells(row: Row) -> tuple[str, ...]:
    """One text a heading; lines inside a cell are separated by newlines."""
    return (
        row.id,
        _item(row),
        "\n".join(row.encodings) or "-",
        " ".join(f"{bits:g}" for bits in row.bits_per_weight) or "-",
        *(_coverage(row.coverage(name)) for name in Dimension),
    )


def tables(rows: Iterable[Row]) -> list[Table]:
    """One rich table a family, in display order: the required backends only, and at most two encodings a row."""
    found = []
    for title, members in _by_family(rows):
        table = Table(title=title, title_justify="left")
        for heading in HEADINGS:
            table.add_column(heading, no_wrap=heading == "row", overflow="fold")
        for row in members:
            table.add_row(*(Text(cell) for cell in _short_cells(row)))
        found.append(table)
    return found


def markdown(rows: Iterable[Row]) -> str:
    """One Markdown table a family, then the summary."""
    listed = list(rows)
    lines: list[str] = []
    for title, members in _by_family(listed):
        lines += [f"### {title}", "", _markdown_line(HEADINGS), _markdown_line(["---"] * len(HEADINGS))]
        lines += [_markdown_line(cells(row)) for row in members]
        lines.append("")
    return "\n".join([*lines, summary(listed), ""])


def html(rows: Iterable[Row]) -> str:
    """One page, every text escaped."""
    listed = list(rows)
    parts = []
    for title, members in _by_family(listed):
        head = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
        body = "\n".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(row))}</tr>" for row in members
        )
        parts.append(f"<h2>{escape(title)}</h2>\n<table>\n<tr>{head}</tr>\n{body}\n</table>")
    return _PAGE.format(summary=escape(summary(listed)), tables="\n".join(parts))


def _short_cells(row: Row) -> tuple[str, ...]:
    shown = " ".join(row.encodings[:2]) or "-"
    more = f" +{len(row.encodings) - 2}" if len(row.encodings) > 2 else ""
    required = ("\n".join(row.coverage(name).required) or "n/a" for name in Dimension)
    row_id, item, _, bits, *_ = cells(row)
    return (row_id, item, shown + more, bits, *required)


def _by_family(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    titles = families()
    return [(titles[name], list(members)) for name, members in groupby(rows, key=lambda row: row.family)]


def _item(row: Row) -> str:
    marks = []
    if row.alias_of is not None:
        marks.append(f"alias of {row.alias_of}")
    elif row.retired is not None:
        marks.append(f"retired: gone from {row.retired.engine} {row.retired.gone_in}")
    elif not row.claimable:
        marks.append("not claimable")
    if row.origin == "ours":
        marks.append("ours")
    return f"{row.item} ({'; '.join(marks)})" if marks else row.item


def _coverage(coverage: Coverage) -> str:
    """The required backends, then the optional ones in brackets; `n/a` when the dimension does not apply."""
    if not coverage.applies:
        return "n/a"
    return "\n".join([*coverage.required, *(f"({name})" for name in coverage.optional)])


def _markdown_line(values: Iterable[str]) -> str:
    escaped = (escape(value, quote=False).replace("|", "\\|").replace("\n", "<br>") for value in values)
    return f"| {' | '.join(escaped)} |"
