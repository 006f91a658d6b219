"""An earlier audit: reading it, and the rows that owe more than they did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.audit.model import Audit, AuditRow, AuditSkip
from harness.errors import BadInput
from harness.plugin.findings import Finding
from harness.rows.strict_yaml import validated
from harness.text import printable

CODE = "grown-skips"


def read(path: Path) -> Audit:
    """The audit that `harness audit --json FILE` wrote. Raises BadInput."""
    import json

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(
            file=path, field="(file)", got=error, wanted="what `harness audit --json FILE` wrote"
        ) from None
    return validated(Audit, document, file=path)


def find(before: Audit, rows: Iterable[AuditRow], skips: Iterable[AuditSkip]) -> Iterator[Finding]:
    """One finding a row whose debts are more than in the baseline, at the largest skip that is new or has grown."""
    then = {row.id: row for row in before.rows}
    had = {key_of(skip): skip.cases for skip in before.skips}
    owed = [skip for skip in skips if skip.debt]
    for row in rows:
        old = then.get(row.id)
        if row.debts <= (old.debts if old else 0):
            continue
        grown = [skip for skip in owed if skip.row == row.id and skip.cases > had.get(key_of(skip), 0)]
        largest = max(grown or owed, key=lambda skip: skip.cases)
        words = (
            f"{row.id} owes {row.debts} of {row.cases} cases, in the baseline "
            f"{f'{old.debts} of {old.cases}' if old else 'it had none'}: {printable(largest.reason)} ({largest.kind})"
        )
        yield Finding(CODE, largest.file, largest.line, words)


def key_of(skip: AuditSkip) -> tuple[str, str, str, str]:
    """What makes a skip the same one in two audits: its test, row, kind and reason."""
    return skip.nodeid, skip.row, skip.kind, skip.reason
