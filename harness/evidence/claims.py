"""From a run to ledger lines: what each cell of the matrix that the run touched shows, or why it shows nothing."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal

from harness.evidence.devices import unfit
from harness.evidence.ledger import GENESIS
from harness.evidence.ledger_lines import (
    OWN_PACKAGE,
    FamilyPart,
    Line,
    PinPart,
    Record,
    RunLine,
    SkipPart,
    SpeedPart,
    Worst,
)
from harness.evidence.own_judges import own_may_judge
from harness.evidence.record import Evidence
from harness.evidence.required import Required, RequiredCase
from harness.evidence.run import Run
from harness.rows.load import load_rows, near
from harness.rows.model import STAND_INS, Dimension
from harness.verdicts import PASSING, UNDECIDED, Side, Verdict

Cell = tuple[str, Dimension, str]
"""Row, dimension, backend."""

OUR_SUBJECTS = frozenset({"reference", "triton", "cuda"})
"""What our own kernels are called as a subject: the matrix claims nothing for anybody else's."""

SHOWN = 10
"""Cases that did not pass are named in a line up to this many."""

_ORDER = {dimension: place for place, dimension in enumerate(Dimension)}


@dataclass(frozen=True)
class Blocked:
    """A cell that shows nothing in this run, and why."""

    cell: Cell
    reason: str

    def __str__(self) -> str:
        return f"{' '.join(self.cell)}: {self.reason}"


@dataclass(frozen=True)
class Claims:
    """Records for the ledger by cell (not chained yet), and the cells without."""

    records: dict[Cell, Record]
    blocked: tuple[Blocked, ...]


def claims_of(run: Run, required: Required) -> Claims:
    """What `run` shows for each cell that one of its verdicts belongs to, in order of the cells."""
    touched: set[Cell] = set()
    strays: dict[Cell, list[str]] = defaultdict(list)
    for case, entry in run.evidence.items():
        cells = {(row, entry.dimension, entry.backend) for row in entry.rows}
        touched |= cells
        listed = required.by_case.get(case)
        if listed is None or _differs(entry, listed[1]):
            for cell in cells:
                strays[cell].append(case)
    source = _source(run)
    records: dict[Cell, Record] = {}
    blocked: list[Blocked] = []
    for cell in sorted(touched, key=cell_order):
        reason = _no_such_cell(cell) or _stray(strays[cell]) or _incomplete(cell, run, required)
        if reason is not None:
            blocked.append(Blocked(cell, reason))
        else:
            records[cell] = Record(0, source, _lines(cell, run, required))
    return Claims(records, tuple(blocked))


def cell_order(cell: Cell) -> tuple[str, int, str]:
    return (cell[0], _ORDER[cell[1]], cell[2])


def family_part(cases: Sequence[RequiredCase], required: Required) -> FamilyPart:
    """Count, digest of the IDs and digest of the code hashes of one family's cases in one cell, as the tree is now."""
    return FamilyPart(
        cases=len(cases),
        ids=_digest(case.case for case in cases),
        code=_digest({required.code_hash(case.case) for case in cases}),
    )


def round_up(value: float, digits: int = 2) -> float:
    """`value` with that many digits, never smaller: a ledger that notes every bit of noise would grow every night."""
    if value == 0 or not math.isfinite(value):
        return value
    exact = Decimal(value)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_UP))


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()[:16]


def _differs(entry: Evidence, listed: RequiredCase) -> bool:
    return (entry.encoding, entry.dimension, entry.backend, set(entry.rows)) != (
        listed.encoding,
        listed.dimension,
        listed.backend,
        set(listed.rows),
    )


def _stray(cases: Sequence[str]) -> str | None:
    if not cases:
        return None
    return f"{_some(cases)} not in the list of required cases as this run says: write the list anew"


def _no_such_cell(cell: Cell) -> str | None:
    row_id, dimension, backend = cell
    rows = load_rows()
    if row_id not in rows:
        return f"there is no such row{near(row_id, rows)}"
    row = rows[row_id]
    if not row.claimable:
        return f"the row claims nothing itself{f': it is an alias of {row.alias_of}' if row.alias_of else ''}"
    if backend not in row.coverage(dimension).backends:
        return f"the row does not list {backend} for {dimension}"
    return None


def _incomplete(cell: Cell, run: Run, required: Required) -> str | None:
    cases = [case for members in required.cells[cell].values() for case in members]
    missing = [case.case for case in cases if case.case not in run.evidence]
    if missing:
        return f"{_some(missing)} without a verdict, of {len(cases)} required"
    found = [run.evidence[case.case] for case in cases]
    unanswered = [
        entry.case
        for entry in found
        if entry.verdict in UNDECIDED
        or (entry.side is Side.ORACLE and entry.verdict is not Verdict.ORACLE_DISAGREE)
    ]
    if unanswered:
        first = run.evidence[unanswered[0]]
        words = f"{first.verdict}: {first.message}" if first.verdict in UNDECIDED else "a fault of the oracle"
        return f"{_some(unanswered)} without an answer to judge by ({words})"
    foreign = [entry for entry in found if entry.subject not in OUR_SUBJECTS and entry.judges]
    if foreign:
        return f"{_some([entry.case for entry in foreign])} of the subject {foreign[0].subject!r}, which is not ours"
    outdated = [entry.case for entry in found if entry.code_hash != required.code_hash(entry.case)]
    if outdated:
        return f"{_some(outdated)} ran with other code than there is now"
    oracles = frozenset(load_rows()[cell[0]].oracles)
    unjudged = [entry for entry in found if entry.verdict in PASSING and not _judged(entry, oracles)]
    if unjudged:
        judges = ", ".join(sorted({judge.pin for judge in unjudged[0].judges}))
        return (
            f"{_some([entry.case for entry in unjudged])} passed before {judges} alone, none of which is an oracle "
            f"of the row ({', '.join(sorted(oracles))})"
        )
    elsewhere = [(entry.case, why) for entry in found if (why := _elsewhere(entry)) is not None]
    if elsewhere:
        return f"{_some([case for case, _ in elsewhere])} for {cell[2]} {elsewhere[0][1]}"
    return None


def _judged(entry: Evidence, oracles: frozenset[str]) -> bool:
    """Whether a pinned oracle of the row judged, or nobody but us can (`harness.evidence.own_judges`)."""
    if any(judge.pin in oracles and judge.package != OWN_PACKAGE for judge in entry.judges):
        return True
    own = frozenset(judge.pin for judge in entry.judges if judge.package == OWN_PACKAGE)
    return own_may_judge(entry.op, entry.encoding, own)


def _elsewhere(entry: Evidence) -> str | None:
    """Why the device is none of the backend's: `pass` may only come from `cpu` or from a real device."""
    if entry.verdict is Verdict.SKIP or entry.backend in STAND_INS:
        return None
    if entry.backend == "cpu":
        return None if entry.device in ("cpu", "") else f"ran on {entry.device!r}"
    return unfit(entry.backend, entry.device)


def _source(run: Run) -> RunLine:
    """What all lines of a run have in common. Shards of several platforms bring several wheels of one pin."""
    pins: dict[str, PinPart] = {}
    for judge in {judge for entry in run.evidence.values() for judge in entry.judges}:
        own = judge.package == OWN_PACKAGE
        wheels = {*(pins[judge.pin].wheels if judge.pin in pins else ()), judge.wheel_sha256}
        pins[judge.pin] = PinPart(
            package=judge.package,
            version=judge.version,
            wheels=() if own else tuple(sorted(wheels)),
            worker="" if own else judge.worker_sha256,
        )
    manifest = run.manifest
    return RunLine(
        prev=GENESIS,
        run=run.digest,
        id=manifest.id,
        time=manifest.closed.time if manifest.closed else manifest.started,
        commit=manifest.commits[-1] or "",
        harness=manifest.harness,
        pins=dict(sorted(pins.items())),
    )


def _lines(cell: Cell, run: Run, required: Required) -> tuple[Line, ...]:
    """A line for each kernel, device and set of pinned judges. Judges of our own are named in it and make no line."""
    row, dimension, backend = cell
    families = {name: family_part(cases, required) for name, cases in sorted(required.cells[cell].items())}
    groups: dict[tuple[str, str, tuple[str, ...]], list[Evidence]] = defaultdict(list)
    for case in sorted(case.case for members in required.cells[cell].values() for case in members):
        entry = run.evidence[case]
        pinned = sorted({judge.pin for judge in entry.judges if judge.package != OWN_PACKAGE})
        groups[entry.kernel, entry.device, tuple(pinned)].append(entry)
    return tuple(
        Line(
            prev=GENESIS,
            run=run.digest,
            row=row,
            dimension=dimension,
            backend=backend,
            kernel=kernel,
            device=device,
            pins=tuple(sorted({judge.pin for entry in members for judge in entry.judges})),
            verdicts=_count(members),
            families=families,
            worst=_worst(members),
            skips=_skips(members),
            not_passed=_not_passed(members),
            speed=_speed(members),
        )
        for (kernel, device, _), members in sorted(groups.items())
    )


def _count(members: Sequence[Evidence]) -> dict[Verdict, int]:
    counts = {verdict: sum(entry.verdict is verdict for entry in members) for verdict in Verdict}
    return {verdict: count for verdict, count in counts.items() if count}


def _worst(members: Sequence[Evidence]) -> Worst:
    def largest(values: Iterable[float | str]) -> float:
        numbers = [float(value) for value in values]
        return math.nan if any(math.isnan(number) for number in numbers) else round_up(max(numbers))

    return Worst(
        max_abs=largest(entry.max_abs for entry in members),
        max_ulp=int(round_up(max(entry.max_ulp for entry in members))),
        over_bound=largest(entry.error_over_bound for entry in members),
    )


def _skips(members: Sequence[Evidence]) -> tuple[SkipPart, ...]:
    found: dict[tuple[str, str, str, str | None], int] = defaultdict(int)
    for entry in members:
        if entry.skip is not None:
            found[entry.skip.kind, entry.skip.reason, entry.skip.owner, entry.skip.expires] += 1
    return tuple(
        SkipPart(kind=kind, reason=reason, owner=owner, expires=expires, cases=count)
        for (kind, reason, owner, expires), count in sorted(found.items(), key=lambda item: str(item[0]))
    )


def _not_passed(members: Sequence[Evidence]) -> dict[str, Verdict]:
    found = [(entry.case, entry.verdict) for entry in members if entry.verdict not in PASSING]
    failed_first = sorted(found, key=lambda item: (item[1] in (Verdict.SKIP, Verdict.XFAIL), item[0]))
    return dict(failed_first[:SHOWN])


def _speed(members: Sequence[Evidence]) -> dict[str, SpeedPart]:
    return {
        entry.case: SpeedPart(
            median_us=_digits(entry.figures.median_us),
            spread=_digits(entry.figures.spread),
            oracle=entry.figures.oracle,
            oracle_median_us=_digits(entry.figures.oracle_median_us),
            oracle_spread=_digits(entry.figures.oracle_spread),
            ratio=_digits(entry.figures.ratio),
            noise=_digits(entry.figures.noise),
            processor=entry.figures.processor,
            threads=entry.figures.threads,
            reason=entry.message,
        )
        for entry in members
        if entry.figures is not None
    }


def _digits(value: float) -> float:
    """Three significant digits: a series does not measure more."""
    return float(f"{value:.3g}")


def _some(cases: Sequence[str]) -> str:
    """`3 cases (A, B, …)`."""
    named = ", ".join(list(cases)[:2])
    return f"{len(cases)} case{'s' if len(cases) > 1 else ''} ({named}{', …' if len(cases) > 2 else ''})"
