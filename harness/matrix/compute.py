"""Computes the matrix from three things that are in the tree: the required cases, the ledger, and the files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from harness.evidence.claims import Cell
from harness.evidence.currency import Currency, currency, required_parts
from harness.evidence.ledger import Ledger, read_ledger
from harness.evidence.ledger_lines import Record
from harness.evidence.required import Required, load_required
from harness.matrix.model import CellEvidence, DimensionState, Matrix, MatrixRow
from harness.matrix.states import Seen, State, cell_state, dimension_state
from harness.paths import REPOSITORY
from harness.rows.load import load_rows
from harness.rows.model import STAND_INS, Dimension, Row
from harness.verdicts import EXPECTED


@dataclass(frozen=True)
class _Held:
    """A record and how it stands against the tree."""

    record: Record
    currency: Currency
    overdue: tuple[str, ...]

    @property
    def seen(self) -> Seen:
        return Seen(
            verdicts=self.record.verdicts,
            skip_kinds=frozenset(skip.kind for skip in self.record.skips),
            missing=bool(self.currency.missing),
            outdated=bool(self.currency.outdated),
            overdue=bool(self.overdue),
        )

    @property
    def why(self) -> tuple[str, ...]:
        return (*self.currency.missing, *self.currency.outdated, *self.overdue)


@dataclass(frozen=True)
class _Cell:
    state: State
    held: tuple[_Held, ...]
    why: str


class _Source:
    """The three things that a cell is computed from."""

    def __init__(self, required: Required, ledger: Ledger, today: date) -> None:
        self.required = required
        self.ledger = ledger
        self._newest = ledger.newest()
        self._today = today

    def cell(self, cell: Cell) -> _Cell:
        now = required_parts(cell, self.required)
        if not now:
            return _Cell(State.ABSENT, (), "no case is required of it yet")
        found = sorted(self._newest.get(cell, {}).values(), key=lambda record: -record.first)
        held = tuple(_Held(record, currency(record, now), self._overdue(record)) for record in found)
        state = cell_state(
            [entry.seen for entry in held], stand_in=cell[2] in STAND_INS, everywhere=cell[2] == "cpu"
        )
        return _Cell(state, held, _why(state, held, sum(part.cases for part in now.values())))

    def _overdue(self, record: Record) -> tuple[str, ...]:
        today = self._today.isoformat()
        return tuple(
            f"a skip of {skip.owner} expired on {skip.expires}"
            for skip in record.skips
            if skip.expires is not None and skip.expires < today
        )


def compute(rows: Iterable[Row], root: Path = REPOSITORY, *, today: date | None = None) -> Matrix:
    """The matrix of `rows` for the tree at `root`. `today` decides which skips have expired.

    Raises BadInput for a ledger or a list of required cases that is not as its writer left it.
    """
    source = _Source(load_required(root), read_ledger(root), today or datetime.now(UTC).date())
    found = tuple(_row(row, source) for row in rows)
    return Matrix(
        counts=_counts(found),
        ledger_lines=source.ledger.head.lines,
        ledger_sha256=source.ledger.head.sha256,
        required_cases=len(source.required.by_case),
        rows=found,
    )


def _row(row: Row, source: _Source) -> MatrixRow:
    shown = load_rows()[row.alias_of] if row.alias_of is not None else row
    return MatrixRow(
        id=row.id,
        family=row.family,
        surface=row.surface,
        item=row.item,
        alias_of=row.alias_of,
        dimensions={dimension: _dimension(shown, dimension, source) for dimension in Dimension},
    )


def _dimension(row: Row, dimension: Dimension, source: _Source) -> DimensionState:
    coverage = row.coverage(dimension)
    if coverage.not_applicable is not None or not row.claimable:
        reason = coverage.not_applicable or "the row claims nothing itself"
        return DimensionState(state=State.NOT_APPLICABLE, backends={}, evidence=(), why=reason)
    cells = {backend: source.cell((row.id, dimension, backend)) for backend in coverage.backends}
    state = dimension_state(
        (cells[backend].state for backend in coverage.required),
        [cells[backend].state for backend in coverage.optional],
    )
    return DimensionState(
        state=state,
        backends={backend: cell.state for backend, cell in cells.items()},
        evidence=tuple(line for cell in cells.values() for held in cell.held for line in _evidence(held)),
        why="; ".join(
            f"{backend}: {cells[backend].why}"
            for backend in coverage.backends
            if cells[backend].why
            and cells[backend].state is state
            and (backend in coverage.required or state is State.FAIL)
        ),
    )


def _why(state: State, held: tuple[_Held, ...], required: int) -> str:
    """What keeps a cell from `pass`, in words; empty when nothing does."""
    if not held:
        return f"{required} cases are required, none has evidence"
    if state is State.FAIL:
        return _first_failure(next(entry.record for entry in held if entry.seen.failed))
    if state in (State.STALE, State.ABSENT):
        return next(("; ".join(entry.why) for entry in held if entry.why), "")
    if state is State.DEBT:
        return "; ".join(
            dict.fromkeys(
                f"{skip.cases} skipped ({skip.kind}): {skip.reason}" for skip in held[0].record.skips
            )
        )
    return ""


def _first_failure(record: Record) -> str:
    named = ((case, verdict) for line in record.lines for case, verdict in line.not_passed.items())
    case, verdict = next(
        (pair for pair in named if pair[1] not in EXPECTED), ("a case that is not named", "fail")
    )
    words = f"line {record.first}: {verdict} in {case}"
    speed = next((line.speed[case] for line in record.lines if case in line.speed), None)
    if speed is None:
        return words
    return (
        f"{words}: {speed.median_us:g} us against {speed.oracle_median_us:g} of {speed.oracle} on {speed.processor}, "
        f"{speed.reason}"
    )


def _evidence(held: _Held) -> Iterable[CellEvidence]:
    record = held.record
    for number, line in enumerate(record.lines, start=record.first):
        yield CellEvidence(
            line=number,
            backend=line.backend,
            run=record.source.id,
            commit=record.source.commit,
            time=record.source.time,
            kernel=line.kernel,
            device=line.device,
            pins={name: record.source.pins[name].version for name in line.pins},
            verdicts=line.verdicts,
            worst=line.worst,
            skips=line.skips,
            not_passed=line.not_passed,
            speed=line.speed,
            outdated=held.why,
        )


def _counts(rows: Iterable[MatrixRow]) -> dict[Dimension, dict[State, int]]:
    counts = {dimension: dict.fromkeys(State, 0) for dimension in Dimension}
    for row in rows:
        if row.alias_of is None:
            for dimension, found in row.dimensions.items():
                counts[dimension][found.state] += 1
    return counts
