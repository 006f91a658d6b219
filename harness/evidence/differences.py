"""Two runs side by side, case by case: what broke, what was mended, what is further apart than before."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.evidence.record import Evidence
from harness.evidence.run import Run
from harness.verdicts import EXPECTED, Verdict


class Kind(StrEnum):
    """What became of a case. The first three are losses."""

    NEW_FAIL = "new fail"
    LOST = "lost"
    GONE = "gone"
    FIXED = "fixed"
    NEW = "new"
    VERDICT = "other verdict"
    ERROR = "other error"


LOSSES = frozenset({Kind.NEW_FAIL, Kind.LOST, Kind.GONE})


@dataclass(frozen=True)
class Change:
    """One case that differs; None where a run does not have it."""

    case: str
    kind: Kind
    before: Evidence | None
    after: Evidence | None

    def words(self) -> str:
        """Before and after, in a line."""
        if self.kind is Kind.ERROR and self.before and self.after:
            return f"{_error(self.before)} -> {_error(self.after)}"
        before = self.before.verdict.value if self.before else "no verdict"
        after = self.after.verdict.value if self.after else "no verdict"
        why = f": {self.after.message}" if self.after is not None and self.after.message else ""
        return f"{before} -> {after}{why}"


def changes(before: Run, after: Run) -> tuple[Change, ...]:
    """The cases that differ between two runs, losses first, then by ID."""
    found = []
    for case in before.evidence.keys() | after.evidence.keys():
        old, new = before.evidence.get(case), after.evidence.get(case)
        kind = _kind(old, new)
        if kind is not None:
            found.append(Change(case, kind, old, new))
    order = list(Kind)
    return tuple(sorted(found, key=lambda change: (order.index(change.kind), change.case)))


def _kind(old: Evidence | None, new: Evidence | None) -> Kind | None:
    if new is None:
        return Kind.GONE
    if new.verdict not in EXPECTED and (old is None or old.verdict in EXPECTED):
        return Kind.NEW_FAIL
    if old is None:
        return Kind.NEW
    if old.verdict is new.verdict:
        return None if _error(old) == _error(new) else Kind.ERROR
    if old.verdict is Verdict.PASS:
        return Kind.LOST
    return Kind.FIXED if new.verdict is Verdict.PASS and old.verdict not in EXPECTED else Kind.VERDICT


def _error(entry: Evidence) -> str:
    return (
        f"{entry.diverged} outside the bound, max |err| {float(entry.max_abs):.6g}, {entry.max_ulp} ulp, "
        f"{float(entry.error_over_bound):.3g} of the bound"
    )
