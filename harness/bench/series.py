"""One series: every arm in turn, round after round, in an order drawn for each round, under a lock that is asked each time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.bench.arms import Player
from harness.bench.load import load_average
from harness.bench.recipe import Recipe
from harness.errors import HarnessError
from oracles.worker_process import ProviderError

AGAIN = "(the oracle again)"
"""The arm that the oracle plays a second time: its ratio to itself is the noise."""
LEAST_ROUNDS = 3


@dataclass
class Samples:
    """What one arm took, a sample a round, in seconds; `fault` says why its samples count for nothing."""

    seconds: list[float] = field(default_factory=list)
    fault: str | None = None


@dataclass(frozen=True)
class Measured:
    """A whole series. `lost` says why the lock did not hold for all of it, `load` the load average before and after."""

    arms: Mapping[str, Samples]
    lost: str | None
    load: tuple[float | None, float | None]


def measure(
    players: Mapping[str, Player],
    sha256: Mapping[str, Mapping[str, str]],
    recipe: Recipe,
    check: Callable[[], str | None],
) -> Measured:
    """Time the arms by turns, the oracle twice a round.

    `check` says why the lock is lost, None while it is held: it is asked before and after each turn, and the series ends
    where it says so. `sha256` are the digests of the results that were verified. An arm whose runs took longer than
    the recipe's `seconds_per_arm` is left out of further rounds, once it has three.
    """
    turns = {**players, AGAIN: players[recipe.oracle]}
    arms = {name: Samples() for name in turns}
    spent = dict.fromkeys(turns, 0.0)
    rng = np.random.default_rng(recipe.seed)
    before = load_average()
    lost = check()
    for _ in range(recipe.rounds):
        names = [
            name for name in turns if not arms[name].fault and _has_time(arms[name], spent[name], recipe)
        ]
        for place in rng.permutation(len(names)):
            name = names[place]
            lost = lost or check()
            if lost:
                break
            expected = sha256.get(recipe.oracle if name == AGAIN else name, {})
            spent[name] += _turn(turns[name], arms[name], recipe, expected)
            lost = lost or check()
    return Measured(arms, lost, (before, load_average()))


def _has_time(samples: Samples, spent: float, recipe: Recipe) -> bool:
    return len(samples.seconds) < LEAST_ROUNDS or spent < recipe.seconds_per_arm


def _turn(player: Player, samples: Samples, recipe: Recipe, expected: Mapping[str, str]) -> float:
    """One sample; gives the seconds that it and its warm-up took, about."""
    try:
        timed = player.time(recipe.warmup, 1)
    except (ProviderError, HarnessError) as error:
        samples.fault = f"it failed while it was timed: {error}"
        return 0.0
    if dict(timed.sha256) != dict(expected):
        samples.fault = "what was timed computed another result than what was verified"
    sample = statistics.median(timed.seconds)
    if not sample > 0:
        samples.fault = f"it says that it took {sample} seconds"
    samples.seconds.append(sample)
    return sample * (recipe.warmup + 1)
