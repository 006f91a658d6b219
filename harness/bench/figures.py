"""From samples to figures and verdicts. Pure: seconds in, words out.

A sample is what an arm took in one round. Rounds are interleaved, so the samples of one round belong together: ratios are
of medians over rounds, and their intervals come from drawing whole rounds again with replacement (a paired bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.verdicts import Verdict

DRAWS = 2000
CONFIDENCE = (2.5, 97.5)


@dataclass(frozen=True)
class Figure:
    """Seconds of one arm: the median over its rounds, and the interquartile range over the median."""

    median: float
    spread: float
    rounds: int


@dataclass(frozen=True)
class Ratio:
    """Median of one arm over that of another, and the 95 % interval of it."""

    value: float
    low: float
    high: float


def figure(samples: Sequence[float]) -> Figure:
    """Median and spread of at least one sample."""
    low, median, high = np.percentile(samples, [25, 50, 75])
    return Figure(float(median), float((high - low) / median), len(samples))


def ratio(arm: Sequence[float], other: Sequence[float], seed: int) -> Ratio:
    """How many times as long `arm` took as `other`. Rounds that only one of them has are left out of the interval."""
    paired = min(len(arm), len(other))
    ours, theirs = np.asarray(arm[:paired]), np.asarray(other[:paired])
    drawn = np.random.default_rng(seed).integers(0, paired, (DRAWS, paired))
    again: npt.NDArray[np.float64] = np.median(ours[drawn], axis=1) / np.median(theirs[drawn], axis=1)
    low, high = np.percentile(again, CONFIDENCE)
    value = float(np.median(ours) / np.median(theirs))
    return Ratio(value, min(float(low), value), max(float(high), value))


def noise_of(again: Ratio) -> float:
    """How far the ratio of an arm to itself may be from one: the further end of its interval, as a fraction."""
    return max(again.high, 1 / again.low) - 1


def speed_verdict(against: Ratio, noise: float, noise_limit: float) -> tuple[Verdict, str]:
    """FASTER, SAME or SLOWER where both ends of the interval say the same, else AMBIGUOUS; and the reason."""
    if noise > noise_limit:
        return Verdict.AMBIGUOUS, (
            f"the oracle differs by {noise:.1%} from itself, and {noise_limit:.1%} is the limit: run it on a quieter machine"
        )
    ends = {_side(end, noise) for end in (against.low, against.value, against.high)}
    measured = f"{against.value:.3g} x the oracle's median ({against.low:.3g} to {against.high:.3g}), noise {noise:.1%}"
    if len(ends) > 1:
        return Verdict.AMBIGUOUS, f"{measured}: the interval allows {' and '.join(sorted(ends))}"
    return ends.pop(), measured


def _side(value: float, noise: float) -> Verdict:
    if value > 1 + noise:
        return Verdict.SLOWER
    return Verdict.FASTER if value < 1 / (1 + noise) else Verdict.SAME
