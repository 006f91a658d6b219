"""Runs on the same inputs have to give the same bits: which one did not, and what that is as a judgement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.comparison.accumulate import failed
from harness.comparison.bounds import Bound
from harness.plugin.judging import Judged, Opinion
from harness.verdicts import Side, Verdict


def first_changed(values: npt.NDArray[np.float32], again: Sequence[npt.NDArray[np.float32]]) -> int | None:
    """The number of the first repetition that has other bits, from 2 on; None where all are the same."""
    wanted = values.tobytes()
    return next((at for at, run in enumerate(again, 2) if run.tobytes() != wanted), None)


def not_the_same(run: int, opinions: Sequence[Opinion], bound: Bound) -> Judged:
    """The judgement on a kernel whose run number `run` gave other bits than the first."""
    words = f"run {run} on the same inputs gave other bits"
    return Judged(
        Verdict.FAIL_NONDET,
        Side.SUBJECT,
        words,
        tuple(opinion.judge for opinion in opinions),
        bound.derivation,
        failed(Verdict.FAIL_NONDET, words),
        float("inf"),
    )
