"""The audit as people read it in a terminal: findings, skips by row and reason, counts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.audit.changes import row_changes, skip_changes
from harness.audit.model import Audit, AuditSkip
from harness.text import printable

_MOST_WORDS = 600


def write(audit: Audit, before: Audit | None, console: Console) -> None:
    """Everything that there is to say, the findings first."""
    for finding in audit.findings:
        words = printable(f"{finding.file}:{finding.line}: {finding.code}: {finding.message}", _MOST_WORDS)
        console.print(Text(words), soft_wrap=True)
    if audit.skips:
        console.print(_skips(audit.skips))
    for line in _summary(audit, before):
        console.print(line, highlight=False, soft_wrap=True)


def _skips(skips: Iterable[AuditSkip]) -> Table:
    """One line a reason: the rows and tests that share it are counted."""
    table = Table(title="Skips", title_justify="left")
    for column in ("kind", "when", "owner", "expires", "rows", "cases", "reason"):
        table.add_column(column, justify="right" if column in ("rows", "cases") else "left")

    def key(skip: AuditSkip) -> tuple[str, ...]:
        return (skip.kind, skip.when, skip.owner, skip.expires or "", skip.reason)

    for (kind, when, owner, expires, reason), members in groupby(sorted(skips, key=key), key=key):
        group = list(members)
        rows = {skip.row: skip for skip in group}
        shown = next(iter(rows)) if len(rows) == 1 else str(len(rows))
        cases = f"{sum(skip.cases for skip in group):,}"
        table.add_row(kind, when, Text(owner), expires, Text(shown), cases, Text(printable(reason)))
    return table


def _summary(audit: Audit, before: Audit | None) -> list[str]:
    counts = audit.counts
    skipped = ", ".join(f"{count:,} {kind}" for kind, count in counts.skips.items()) or "none"
    not_comparable = len(counts.bounds_not_comparable)
    lines = [
        f"{counts.files} test files, {counts.tests:,} tests, {counts.cases:,} cases of {counts.families} families",
        f"skips      {skipped}; {counts.debts:,} of them debts",
        f"bounds     {counts.bounds_compared} compared with upstream's, {not_comparable} not comparable",
    ]
    if before is not None:
        rows, skips = row_changes(before, audit), skip_changes(before, audit)
        gained = (sum(change.gained for change in rows), sum(change.gained for change in skips))
        lines.append(
            f"baseline   rows {gained[0]} gained, {len(rows) - gained[0]} lost; "
            f"skips {gained[1]} gained, {len(skips) - gained[1]} lost"
        )
    by_code = ", ".join(f"{count} {code}" for code, count in counts.findings.items())
    return [*lines, f"findings   {by_code or 'none'}"]
