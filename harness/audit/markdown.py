"""The summary for a pull request, in Markdown: findings, rows and skips gained and lost, with denominators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from html import escape

from harness.audit.changes import RowChange, SkipChange, passing, row_changes, skip_changes
from harness.audit.model import Audit
from harness.rows.model import Dimension
from harness.text import printable

_MOST = 50
"""Lines of one list. A comment on a pull request has a largest size, and nobody reads more."""


def summary(audit: Audit, before: Audit | None) -> str:
    """One page. Without a baseline it shows what there is, and no changes."""
    counts = audit.counts
    total = sum(counts.findings.values())
    size = f"{_number(counts.tests, 'test')} and {_number(counts.cases, 'case')}"
    lines = [
        "## Audit",
        "",
        f"**{_number(total, 'finding')}** in {_number(counts.files, 'test file')} with {size}.",
        "",
        *_table(
            ("code", "where", "what"),
            (
                (f"`{each.code}`", f"`{each.file}:{each.line}`", _words(each.message))
                for each in audit.findings
            ),
        ),
        "### Rows that claim pass",
        "",
        *_table(("dimension", "rows", "of", *(("before", "of") if before else ())), _claims(audit, before)),
    ]
    if before is None:
        lines += [
            "### Skips",
            "",
            _skipped(audit),
            "",
            "No baseline was given: nothing is gained or lost.",
            "",
        ]
        return "\n".join(lines)
    rows, skips = row_changes(before, audit), skip_changes(before, audit)
    lines += _changes("Rows gained", ("row", "dimension", "before", "now"), _rows(rows, gained=True))
    lines += _changes("Rows lost", ("row", "dimension", "before", "now"), _rows(rows, gained=False))
    lines += ["### Skips", "", f"{_skipped(audit)} Before: {_skipped(before)}", ""]
    columns = ("row", "kind", "before", "now", "of", "test", "reason")
    lines += _changes("Skips gained", columns, _skips(skips, gained=True))
    lines += _changes("Skips lost", columns, _skips(skips, gained=False))
    return "\n".join(lines)


def _claims(audit: Audit, before: Audit | None) -> Iterable[tuple[str, ...]]:
    for dimension in Dimension:
        sides = (passing(audit, dimension), *((passing(before, dimension),) if before else ()))
        yield (dimension.value, *(str(number) for side in sides for number in side))


def _skipped(audit: Audit) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in audit.counts.skips.items()) or "none"
    return (
        f"{_number(audit.counts.debts, 'debt')} among {audit.counts.cases:,} cases; skips by kind: {kinds}."
    )


def _rows(changes: Iterable[RowChange], *, gained: bool) -> list[tuple[str, ...]]:
    return [
        (f"`{each.row}`", each.dimension.value, each.before.value, each.after.value)
        for each in changes
        if each.gained is gained
    ]


def _skips(changes: Iterable[SkipChange], *, gained: bool) -> list[tuple[str, ...]]:
    """One line for each test, kind and reason; debts first. `of` counts the cases of the rows that are in it."""
    groups: dict[tuple[bool, str, str, str], list[SkipChange]] = defaultdict(list)
    for each in changes:
        if each.gained is gained:
            groups[not each.skip.debt, each.skip.nodeid, each.skip.kind, each.skip.reason].append(each)
    lines = []
    for (elsewhere, nodeid, kind, reason), members in sorted(groups.items(), key=lambda group: group[0]):
        rows = {each.skip.row: each.skip.of for each in members}
        counts = (
            sum(each.before for each in members),
            sum(each.after for each in members),
            sum(rows.values()),
        )
        lines.append(
            (
                f"`{next(iter(rows))}`" if len(rows) == 1 else f"{len(rows)} rows",
                kind if elsewhere else f"**{kind}**",
                *(f"{count:,}" for count in counts),
                f"`{nodeid}`",
                _words(reason),
            )
        )
    return lines


def _changes(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [f"### {title}: {len(rows)}", "", *_table(columns, rows)]


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    listed = list(rows)
    if not listed:
        return []
    lines = [_line(columns), _line("---" for _ in columns), *map(_line, listed[:_MOST])]
    more = [f"… and {len(listed) - _MOST} more", ""] if len(listed) > _MOST else []
    return [*lines, "", *more]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _words(text: str) -> str:
    """Text that came from outside, as Markdown shows it and nothing else."""
    shown = escape(printable(text, 400), quote=False)
    return "".join(f"\\{each}" if each in "`*_[]" else each for each in shown)


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")
