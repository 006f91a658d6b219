"""A figure that means nothing is never a verdict: each way to measure wrong ends in its own word, for the reason named."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bench import judge, load
from harness.bench.figures import figure, noise_of, ratio, speed_verdict
from harness.bench.load import busy
from harness.bench.tests.series_made import WORK, judged, recipe
from harness.verdicts import Verdict

ONE = (1.0, 1.01, 0.99, 1.0, 1.0)
HALF = tuple(value / 2 for value in ONE)
TWICE = tuple(value * 2 for value in ONE)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "cores", lambda: 2)


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(HALF, Verdict.FASTER), (ONE, Verdict.SAME), (TWICE, Verdict.SLOWER)]
)
def test_a_clear_series_gets_the_wrong_word(
    tmp_path: Path, seconds: tuple[float, ...], verdict: Verdict
) -> None:
    lines = judged(recipe(tmp_path), seconds)
    assert lines["ours"].verdict is verdict
    assert lines["engine"].verdict is Verdict.SAME


def test_a_figure_without_a_correctness_verdict_counts(tmp_path: Path) -> None:
    lines = judged(recipe(tmp_path), HALF, verdict=Verdict.FAIL_VALUE)
    assert lines["ours"].verdict is Verdict.VOID
    assert "not verified: FAIL_VALUE" in lines["ours"].reason
    assert judge.exit_code(lines.values(), []) == 1


def test_a_figure_of_a_series_that_lost_its_lock_counts(tmp_path: Path) -> None:
    lines = judged(recipe(tmp_path), HALF, lost="the lock file is gone")
    assert {line.verdict for line in lines.values()} == {Verdict.VOID}
    assert "the lock file is gone" in lines["ours"].reason
    assert judge.exit_code(lines.values(), []) == 3


def test_a_timed_run_that_computes_something_else_counts(tmp_path: Path) -> None:
    words = "what was timed computed another result than what was verified"
    assert judged(recipe(tmp_path), HALF, fault=words)["ours"].verdict is Verdict.VOID


def test_an_oracle_that_differs_from_itself_decides(tmp_path: Path) -> None:
    lines = judged(recipe(tmp_path), HALF, again=(1.3, 1.2, 1.4, 1.25, 1.3))
    assert {line.verdict for line in lines.values()} == {Verdict.AMBIGUOUS}
    assert "from itself" in lines["ours"].reason
    assert judge.exit_code(lines.values(), []) == 3


def test_a_series_beside_others_decides(tmp_path: Path) -> None:
    lines = judged(recipe(tmp_path), HALF, load=(0.1, 3.5))
    assert {line.verdict for line in lines.values()} == {Verdict.AMBIGUOUS}
    assert "others kept 2.5 of 2 cores busy" in lines["ours"].reason


def test_a_series_without_noise_gets_a_verdict(tmp_path: Path) -> None:
    lines = judged(recipe(tmp_path), HALF, again=())
    assert lines["ours"].verdict is Verdict.VOID
    assert lines["ours"].noise is None


def test_an_interval_over_the_threshold_is_decided() -> None:
    against = ratio((0.9, 0.9, 1.2, 1.5, 1.6), ONE, seed=1)
    assert speed_verdict(against, 0.05, 0.1)[0] is Verdict.AMBIGUOUS


def test_a_loss_within_the_noise_is_a_loss() -> None:
    assert speed_verdict(ratio((1.03,) * 5, ONE, seed=1), 0.05, 0.1)[0] is Verdict.SAME


def test_noise_of_an_arm_that_is_faster_at_its_second_turn_is_negative() -> None:
    assert noise_of(ratio((0.8,) * 5, (1.0,) * 5, seed=1)) == pytest.approx(0.25)


def test_one_slow_round_moves_the_figure() -> None:
    assert figure((1.0, 1.0, 1.0, 1.0, 50.0)).median == 1.0


def test_a_machine_that_does_not_tell_its_load_is_taken_for_quiet() -> None:
    assert busy(None, None, 1, 2) is not None
    assert busy(0.5, 1.4, 1, 2) is None
    assert load.load_average() is None or load.load_average() >= 0


FLOOR = "floors:\n  - {{arm: ours, against: engine, at_least: {}, encodings: [ggml.q8_0]}}\n"


@pytest.mark.parametrize(
    ("at_least", "seconds", "status"), [(0.9, ONE, 0), (1.5, HALF, 0), (0.9, TWICE, 1), (1.5, ONE, 1)]
)
def test_a_missed_floor_ends_well(
    tmp_path: Path, at_least: float, seconds: tuple[float, ...], status: int
) -> None:
    of = recipe(tmp_path, more=FLOOR.format(at_least))
    lines = judged(of, seconds)
    held = judge.floors(of, WORK, list(lines.values()))
    assert [floor.met for floor in held] == [status == 0]
    assert judge.exit_code(lines.values(), held) == status


def test_a_floor_without_a_figure_is_met(tmp_path: Path) -> None:
    of = recipe(tmp_path, more=FLOOR.format(0.9))
    lines = judged(of, HALF, lost="the lock file is gone")
    (held,) = judge.floors(of, WORK, list(lines.values()))
    assert held.met is None
    assert judge.exit_code(lines.values(), [held]) == 3


def test_a_slower_arm_alone_fails_the_recipe(tmp_path: Path) -> None:
    lines = judged(recipe(tmp_path), TWICE)
    assert judge.exit_code(lines.values(), []) == 0


def test_a_recipe_that_times_nothing_is_green() -> None:
    assert judge.exit_code([], []) == 3


def test_bandwidth_counts_what_is_read_and_what_is_written(tmp_path: Path) -> None:
    line = judged(recipe(tmp_path), (1e-6,) * 5)["ours"]
    moved = 4 * 64 * 4 + 4 * 64 // 32 * 34
    assert line.gbps == pytest.approx(moved / 1e-6 / 1e9)
    assert line.bound_ratio == pytest.approx(line.gbps / 20)
    assert line.cycles_per_32 == pytest.approx(1e-6 * 2.5e9 * 32 / 256)
