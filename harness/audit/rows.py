"""Each row's share of cases, debts and states: the denominators of the audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from harness.audit.collected import Collected
from harness.audit.model import AuditRow
from harness.audit.skips import Declared
from harness.matrix.model import Matrix


def shares(collected: Collected, skips: Iterable[Declared], matrix: Matrix) -> tuple[AuditRow, ...]:
    """One entry a row of the matrix, in its order. A case that is skipped is owed by each of its rows, once; a skipped
    test without cases counts as a case of the row that it names."""
    cases: dict[str, set[str]] = defaultdict(set)
    debts: dict[str, set[str]] = defaultdict(set)
    elsewhere: dict[str, set[str]] = defaultdict(set)
    for test in collected.tests:
        for case in test.cases:
            for row in case.rows:
                cases[row].add(case.id)
    for skip in skips:
        where = debts if skip.debt else elsewhere
        for case in skip.cases:
            for row in case.rows:
                where[row].add(case.id)
        if not skip.test.cases:
            cases[skip.row].add(skip.test.nodeid)
            where[skip.row].add(skip.test.nodeid)
    return tuple(
        AuditRow(
            id=row.id,
            cases=len(cases[row.id]),
            debts=len(debts[row.id]),
            elsewhere=len(elsewhere[row.id] - debts[row.id]),
            dimensions={dimension: shown.state for dimension, shown in row.dimensions.items()},
        )
        for row in matrix.rows
    )
