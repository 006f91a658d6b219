"""Does a fresh run on this machine show what the ledger claims for the CPU? The check that a forged line cannot pass."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.evidence.claims import Cell, claims_of
from harness.evidence.currency import currency, required_parts
from harness.evidence.ledger import read_ledger
from harness.evidence.promote import refuse_judges
from harness.evidence.required import Required, load_required
from harness.evidence.run import Run
from harness.paths import REPOSITORY
from harness.rows.model import Dimension
from harness.verdicts import EXPECTED, Verdict


@dataclass(frozen=True)
class Recomputed:
    """`failed`, `stale` and `unclaimed` are lines for a person, one a cell; `confirmed` counts the cells that agree.

    `unclaimed` cells are shown by the run and are not in the ledger yet; of `nightly` ones this run left out the cases
    that only `pytest --nightly` runs. `shown` counts the CPU cells of the run, `claims` the records of the ledger, of
    any backend.
    """

    failed: tuple[str, ...]
    stale: tuple[str, ...]
    unclaimed: tuple[str, ...]
    nightly: tuple[str, ...]
    confirmed: int
    shown: int
    claims: int

    @property
    def ok(self) -> bool:
        """Nothing failed, and something ran if anything is claimed."""
        return not self.failed and (self.shown > 0 or self.claims == 0)


def recompute_check(run: Run, root: Path = REPOSITORY) -> Recomputed:
    """Hold the newest CPU lines of the ledger against `run`, which may come from uncommitted code.

    A cell fails when the run fails in it, when the run does not have all its cases, or when it counts other verdicts
    than a ledger line whose code, cases and pins are still current. Lines that are not current are stale. What only a
    nightly run recomputes is left to it, unless this run failed in that cell. Nothing is timed again.
    Raises BadInput for a run judged from the memo or by other pins.
    """
    refuse_judges(run)
    required = load_required(root)
    claims = claims_of(run, required)
    shown = {cell: record.verdicts for cell, record in claims.records.items() if _recomputed(cell)}
    why_not = {blocked.cell: blocked.reason for blocked in claims.blocked}
    failed: dict[Cell, str] = {}
    stale: dict[Cell, str] = {}
    nightly: list[Cell] = []
    confirmed: set[Cell] = set()
    ledger = read_ledger(root)
    for cell, devices in ledger.newest().items():
        if cell[2] != "cpu":
            continue
        record = max(devices.values(), key=lambda found: found.first)
        then = currency(record, required_parts(cell, required))
        if then.missing or then.outdated:
            stale[cell] = "; ".join((*then.missing, *then.outdated))
        elif not _recomputed(cell):
            continue
        elif cell not in shown and _left_to_the_night(cell, run, required):
            nightly.append(cell)
        elif cell not in shown:
            reason = why_not.get(cell, "the run has no verdict of it")
            failed[cell] = f"line {record.first} was not recomputed: {reason}"
        elif record.verdicts != shown[cell]:
            failed[cell] = (
                f"line {record.first} says {_words(record.verdicts)}, the run {_words(shown[cell])}"
            )
        else:
            confirmed.add(cell)
    for cell, counts in shown.items():
        bad = {verdict: count for verdict, count in counts.items() if verdict not in EXPECTED}
        if bad:
            confirmed.discard(cell)
            failed.setdefault(cell, f"the run counts {_words(bad)}")
    unclaimed = [cell for cell in shown if cell not in confirmed and cell not in failed and cell not in stale]
    return Recomputed(
        failed=tuple(f"{' '.join(cell)}: {reason}" for cell, reason in failed.items()),
        stale=tuple(f"{' '.join(cell)}: {reason}" for cell, reason in stale.items()),
        unclaimed=tuple(" ".join(cell) for cell in unclaimed),
        nightly=tuple(" ".join(cell) for cell in nightly),
        confirmed=len(confirmed),
        shown=len(shown),
        claims=len(ledger.records),
    )


def _recomputed(cell: Cell) -> bool:
    """Whether any machine gives the same answer again. A time is the other machine's own: of it only the code is held
    against the tree."""
    return cell[2] == "cpu" and cell[1] is not Dimension.PERF


def _left_to_the_night(cell: Cell, run: Run, required: Required) -> bool:
    """Whether the run misses nothing of the cell but whole families that are nightly, and did well in the rest."""
    families = required.cells[cell]
    absent = {
        name for name, cases in families.items() if not any(case.case in run.evidence for case in cases)
    }
    rest = [case.case for name, cases in families.items() if name not in absent for case in cases]
    verdicts = [run.evidence[case].verdict for case in rest if case in run.evidence]
    return (
        bool(absent)
        and all(required.families[name].nightly for name in absent)
        and len(verdicts) == len(rest)
        and all(verdict in EXPECTED for verdict in verdicts)
    )


def _words(counts: dict[Verdict, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
