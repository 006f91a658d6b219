"""What changed between two audits: rows and skips that were gained and lost, each beside what there is in all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.audit.baseline import key_of
from harness.audit.model import Audit, AuditSkip
from harness.matrix.states import State
from harness.rows.model import Dimension

_BEST_FIRST = tuple(State)


@dataclass(frozen=True)
class RowChange:
    """A dimension of a row that shows another state. A row that is new was `absent`, and so is one that is gone."""

    row: str
    dimension: Dimension
    before: State
    after: State

    @property
    def gained(self) -> bool:
        return _BEST_FIRST.index(self.after) < _BEST_FIRST.index(self.before)


@dataclass(frozen=True)
class SkipChange:
    """A skip that is about another number of cases, 0 where it is not there."""

    skip: AuditSkip
    before: int
    after: int

    @property
    def gained(self) -> bool:
        return self.after > self.before


def row_changes(before: Audit, after: Audit) -> list[RowChange]:
    """In the order of the rows. What does not apply, before or after, is neither gained nor lost."""
    return [change for change in _rows(before, after) if change.before is not change.after]


def skip_changes(before: Audit, after: Audit) -> list[SkipChange]:
    """New, grown, shrunk and gone skips, by the test that they are on."""
    old = {key_of(skip): skip for skip in before.skips}
    new = {key_of(skip): skip for skip in after.skips}
    found = []
    for key in sorted({*old, *new}):
        then, now = old.get(key), new.get(key)
        counts = (then.cases if then else 0, now.cases if now else 0)
        shown = now or then
        if shown is not None and counts[0] != counts[1]:
            found.append(SkipChange(shown, *counts))
    return found


def passing(audit: Audit, dimension: Dimension) -> tuple[int, int]:
    """How many rows claim `pass` in a dimension, and to how many it applies."""
    states = [row.dimensions.get(dimension, State.ABSENT) for row in audit.rows]
    applies = [state for state in states if state is not State.NOT_APPLICABLE]
    return sum(state is State.PASS for state in applies), len(applies)


def _rows(before: Audit, after: Audit) -> Iterator[RowChange]:
    old = {row.id: row.dimensions for row in before.rows}
    new = {row.id: row.dimensions for row in after.rows}
    for row in dict.fromkeys((*new, *old)):
        for dimension in Dimension:
            then, now = (states.get(row, {}).get(dimension, State.ABSENT) for states in (old, new))
            if State.NOT_APPLICABLE not in (then, now):
                yield RowChange(row, dimension, then, now)
