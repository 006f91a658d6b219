"""The states of a cell and of a dimension, as pure functions of what the evidence says.

A cell is a row x dimension x backend; a dimension shows the worst of the backends that it requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.verdicts import PASSING, Verdict


class State(StrEnum):
    """What a cell or dimension shows, from best to worst; `n/a` stands outside the order."""

    PASS = "pass"
    EMULATED = "emulated"
    DEBT = "debt"
    STALE = "stale"
    ABSENT = "absent"
    FAIL = "fail"
    NOT_APPLICABLE = "n/a"


MEANINGS = {
    State.PASS: "every required case passed on the CPU or on a real device, with this code and these pins",
    State.EMULATED: "the same, but from an interpreter or shim",
    State.DEBT: "some required cases are skipped or expected to fail, with a reason; the others passed",
    State.STALE: "the evidence was made with other code, other required cases or another pin",
    State.ABSENT: "something that is required has no evidence and no reason",
    State.FAIL: "a required case failed",
    State.NOT_APPLICABLE: "declared in the row",
}

_WORST_LAST = (State.PASS, State.EMULATED, State.DEBT, State.STALE, State.ABSENT, State.FAIL)
_EXCUSED = frozenset({Verdict.SKIP, Verdict.XFAIL})
_ELSEWHERE = frozenset({"hardware", "platform"})


@dataclass(frozen=True)
class Seen:
    """What one record of the ledger says about a cell, held against the tree.

    `verdicts` counts its required cases. `skip_kinds` are the kinds of its skips. `missing`: cases are required of
    which it has none; `outdated`: its code, cases or pins have changed; `overdue`: a skip of it has expired.
    """

    verdicts: Mapping[Verdict, int]
    skip_kinds: frozenset[str] = frozenset()
    missing: bool = False
    outdated: bool = False
    overdue: bool = False

    @property
    def failed(self) -> bool:
        return any(verdict not in PASSING and verdict not in _EXCUSED for verdict in self.verdicts)

    @property
    def skipped_all(self) -> bool:
        return set(self.verdicts) == {Verdict.SKIP}

    @property
    def only_elsewhere(self) -> bool:
        """Nothing ran, for want of the device or the platform: this machine has nothing to say about the cell of a
        device."""
        return self.skipped_all and self.skip_kinds <= _ELSEWHERE


def record_state(seen: Seen, *, stand_in: bool) -> State:
    """The state that a cell would have if this record were all there is. `stand_in`: an interpreter or shim ran it."""
    if seen.failed:
        return State.FAIL
    if seen.missing or seen.overdue or not seen.verdicts:
        return State.ABSENT
    if seen.outdated:
        return State.STALE
    if set(seen.verdicts) & _EXCUSED:
        return State.DEBT
    return State.EMULATED if stand_in else State.PASS


def cell_state(seen: Sequence[Seen], *, stand_in: bool, everywhere: bool = False) -> State:
    """The state of a cell from the newest record of each set of devices, newest first.

    Records that speak about the tree as it is decide: a failure on any device fails the cell; otherwise one device on
    which everything passed is enough. Where there is none, the newest record that is outdated or incomplete decides.
    A machine without the device, which skips everything for that, is heard only when nobody else speaks.

    `everywhere`: the backend is the CPU, which no machine lacks. There the newest record counts whatever it skips, and
    skipping everything hides no failure before it.
    """
    if everywhere:
        ran_at = next((place for place, one in enumerate(seen) if not one.skipped_all), len(seen) - 1)
        heard = [record_state(one, stand_in=stand_in) for one in seen[: ran_at + 1]]
        return max(heard, key=_WORST_LAST.index, default=State.ABSENT)
    ran = [record for record in seen if not record.only_elsewhere]
    if not ran:
        return record_state(seen[0], stand_in=stand_in) if seen else State.ABSENT
    current = [record for record in ran if not (record.missing or record.outdated or record.overdue)]
    if not current:
        return record_state(ran[0], stand_in=stand_in)
    states = {record_state(record, stand_in=stand_in) for record in current}
    return State.FAIL if State.FAIL in states else min(states, key=_WORST_LAST.index)


def dimension_state(required: Iterable[State], optional: Iterable[State] = ()) -> State:
    """The worst of the required cells; an optional cell counts only when it fails. No cell at all is `n/a`."""
    states = list(required)
    if State.FAIL in optional:
        states.append(State.FAIL)
    return max(states, key=_WORST_LAST.index, default=State.NOT_APPLICABLE)
