"""Timed series in evidence, ledger and matrix: a loss is published with its figure, and what has no figure claims nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.evidence.case import Case
from harness.evidence.ledger import read_ledger
from harness.evidence.promote import promote
from harness.evidence.recompute import recompute_check
from harness.evidence.record import Evidence, Figures
from harness.evidence.required import write_required
from harness.evidence.tests.made import CASES, DECODE, Q4_K, commit, evidence, make_run, passing
from harness.matrix.compute import compute
from harness.matrix.model import DimensionState
from harness.matrix.states import State
from harness.rows.load import load_rows
from harness.rows.model import Dimension
from harness.verdicts import Verdict

SPEED = dataclasses.replace(
    DECODE,
    name="test.speed",
    dimension=Dimension.PERF,
    encodings=("ggml.q4_k",),
    axes={"size": ("4096x4096",)},
    bound="1.00 x",
)
(CASE,) = SPEED.cases()


def figures(ratio: float, **changes: Any) -> Figures:
    fields: dict[str, Any] = {
        "median_us": 1000.0 * ratio,
        "spread": 0.01,
        "oracle": "llama.cpp",
        "oracle_median_us": 1000.0,
        "oracle_spread": 0.01,
        "ratio": ratio,
        "interval": (ratio * 0.99, ratio * 1.01),
        "noise": 0.02,
        "gbps": 4.0,
        "bound_ratio": 0.2,
        "rounds": 7,
        "processor": "a processor",
        "threads": 1,
    }
    return Figures(**{**fields, **changes})


@pytest.fixture
def timed(tree: Path) -> Path:
    """The tree with a family that is timed."""
    write_required([*CASES, CASE], tree)
    commit(tree)
    return tree


def series(
    tree: Path, verdict: Verdict, ratio: float | None = None, case: Case = CASE, **changes: Any
) -> Evidence:
    fields = {"figures": None if ratio is None else figures(ratio), "diverged": 0, "worst": None, **changes}
    return evidence(case, tree, verdict, **fields)


def perf_of(tree: Path) -> DimensionState:
    (row,) = compute([load_rows()[Q4_K]], tree).rows
    return row.dimensions[Dimension.PERF]


@pytest.mark.parametrize(
    ("verdict", "ratio", "state"),
    [
        (Verdict.FASTER, 0.5, State.PASS),
        (Verdict.SAME, 1.01, State.PASS),
        (Verdict.SLOWER, 5.3, State.FAIL),
    ],
)
def test_a_series_shows_another_state_than_its_verdict(
    timed: Path, verdict: Verdict, ratio: float, state: State
) -> None:
    done = promote(make_run(timed, [series(timed, verdict, ratio)]), timed)
    assert (len(done.added), done.blocked) == (1, ())
    assert perf_of(timed).backends["cpu"] is state


def test_a_loss_is_published_without_its_figure(timed: Path) -> None:
    promote(make_run(timed, [series(timed, Verdict.SLOWER, 5.3, message="plain numpy")]), timed)
    found = perf_of(timed)
    assert found.state is State.FAIL, "a loss on an optional backend is not hidden"
    assert "5300 us against 1000 of llama.cpp on a processor, plain numpy" in found.why
    (line,) = found.evidence
    assert line.speed[CASE.id].oracle_median_us == 1000


@pytest.mark.parametrize("verdict", [Verdict.AMBIGUOUS, Verdict.VOID])
def test_a_series_without_a_figure_enters_the_ledger(timed: Path, verdict: Verdict) -> None:
    done = promote(make_run(timed, [series(timed, verdict, message="the lock was lost")]), timed)
    assert done.added == ()
    assert "the lock was lost" in done.blocked[0].reason
    assert perf_of(timed).backends["cpu"] is State.ABSENT


def test_another_time_on_the_same_machine_makes_the_ledger_grow(timed: Path) -> None:
    promote(make_run(timed, [series(timed, Verdict.SLOWER, 5.3)]), timed)
    again = promote(make_run(timed, [series(timed, Verdict.SLOWER, 5.6)]), timed)
    assert (again.added, len(again.unchanged)) == ((), 1)
    other = figures(5.6, processor="another processor")
    moved = promote(make_run(timed, [series(timed, Verdict.SLOWER, figures=other)]), timed)
    assert len(moved.added) == 1


def test_the_check_of_every_change_wants_a_series_timed_again(timed: Path) -> None:
    promote(make_run(timed, [*passing(timed), series(timed, Verdict.SLOWER, 5.3)]), timed)
    found = recompute_check(make_run(timed, passing(timed)), timed)
    assert (found.failed, found.stale, found.ok) == ((), (), True)


def test_a_series_of_other_code_stays_current(timed: Path) -> None:
    promote(make_run(timed, [*passing(timed), series(timed, Verdict.SAME, 1.0)]), timed)
    kernel = timed / "kernels" / "ggml" / "q4_k" / "reference.py"
    kernel.write_text(kernel.read_text() + "\n")
    assert perf_of(timed).backends["cpu"] is State.STALE
    found = recompute_check(make_run(timed, passing(timed)), timed)
    assert any("Perf" in line for line in found.stale)
    assert not any("Perf" in line for line in found.failed)


@pytest.mark.parametrize(
    ("verdict", "changes"),
    [
        (Verdict.FASTER, {"figures": None}),
        (Verdict.FASTER, {"judges": ()}),
        (Verdict.SAME, {"kernel": ""}),
        (Verdict.SLOWER, {"diverged": 3}),
        (Verdict.SLOWER, {"message": ""}),
        (Verdict.PASS, {}),
        (Verdict.FASTER, {"dimension": Dimension.COMPUTE}),
    ],
)
def test_a_speed_without_what_it_rests_on_is_evidence(
    timed: Path, verdict: Verdict, changes: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        series(timed, verdict, 0.5, **changes)


def test_figures_are_lost_on_the_way_through_the_ledger(timed: Path) -> None:
    promote(make_run(timed, [series(timed, Verdict.SLOWER, 5.3456)]), timed)
    (record,) = read_ledger(timed).records
    assert record.lines[0].speed[CASE.id].ratio == 5.35
    assert record.lines[0].not_passed == {CASE.id: Verdict.SLOWER}
