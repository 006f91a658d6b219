"""How a series is taken: by turns, under the lock, each time with the result that was verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bench.arms import Timed
from harness.bench.series import AGAIN, measure
from harness.bench.tests.series_made import recipe
from harness.evidence.record import Judge
from harness.verdicts import Verdict
from oracles.worker_process import ProviderError


class Ticking:
    """An arm that takes `seconds` and notes its turns."""

    kernel = "a kernel"
    judge: Judge | None = None

    def __init__(self, name: str, turns: list[str], seconds: float = 1e-3, sha256: str = "right") -> None:
        self.name, self.turns, self.seconds, self.sha256 = name, turns, seconds, sha256

    def produce(self) -> dict[str, object]:
        return {}

    def time(self, warmup: int, repeat: int) -> Timed:
        assert (warmup, repeat) == (1, 1)
        self.turns.append(self.name)
        return Timed((self.seconds,), {"values": self.sha256})


RIGHT = {"ours": {"values": "right"}, "engine": {"values": "right"}}


def players(turns: list[str], **ours: object) -> dict[str, Ticking]:
    return {"ours": Ticking("ours", turns, **ours), "engine": Ticking("engine", turns)}


def test_an_arm_is_timed_in_one_go(tmp_path: Path) -> None:
    turns: list[str] = []
    found = measure(players(turns), RIGHT, recipe(tmp_path), lambda: None)
    rounds = [turns[at : at + 3] for at in range(0, len(turns), 3)]
    assert [sorted(one) for one in rounds] == [["engine", "engine", "ours"]] * 5
    assert len({tuple(one) for one in rounds}) > 1, "the order has to change from round to round"
    assert {len(samples.seconds) for samples in found.arms.values()} == {5}
    assert found.lost is None


def test_a_lock_that_is_lost_half_way_is_overlooked(tmp_path: Path) -> None:
    turns: list[str] = []
    answers = iter([None] * 7)
    found = measure(players(turns), RIGHT, recipe(tmp_path), lambda: next(answers, "the lock file is gone"))
    assert found.lost == "the lock file is gone"
    assert len(turns) < 15, "nothing is timed once the lock is lost"


def test_a_result_that_differs_from_the_verified_one_is_timed(tmp_path: Path) -> None:
    found = measure(players([], sha256="wrong"), RIGHT, recipe(tmp_path), lambda: None)
    assert "another result" in (found.arms["ours"].fault or "")
    assert found.arms["engine"].fault is None
    assert found.arms[AGAIN].fault is None


@pytest.mark.parametrize("seconds", [0.0, float("nan"), -1.0])
def test_an_arm_that_says_it_took_no_time_wins(tmp_path: Path, seconds: float) -> None:
    found = measure(players([], seconds=seconds), RIGHT, recipe(tmp_path), lambda: None)
    assert "it says that it took" in (found.arms["ours"].fault or "")


def test_an_arm_that_dies_ends_the_series(tmp_path: Path) -> None:
    turns: list[str] = []
    arms = players(turns)

    def die(warmup: int, repeat: int) -> Timed:
        raise ProviderError(Verdict.ERROR_RUN, "died")

    arms["ours"].time = die  # type: ignore[method-assign]
    found = measure(arms, RIGHT, recipe(tmp_path), lambda: None)
    assert "died" in (found.arms["ours"].fault or "")
    assert len(found.arms["engine"].seconds) == 5


def test_a_slow_arm_takes_the_whole_night(tmp_path: Path) -> None:
    turns: list[str] = []
    of = recipe(tmp_path, ("seconds_per_arm: 10", "seconds_per_arm: 1"))
    found = measure(players(turns, seconds=9.0), RIGHT, of, lambda: None)
    assert len(found.arms["ours"].seconds) == 3
    assert len(found.arms["engine"].seconds) == 5
