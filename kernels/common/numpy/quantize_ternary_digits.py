"""Digits 0, 1, 2 of ternary weights, as TQ1_0 and TQ2_0 share them."""

from __future__ import annotations

import numpy as np

from kernels.common.numpy.quantize_steps import (
    Bytes,
    Floats,
    lanes,
    largest_after_nan,
    reciprocal,
    round_half_away,
)


def ternary_digits(rows: Floats) -> tuple[Floats, Bytes]:
    """d = amax [n] and digits round(x * (1 / d)) + 1, half away from zero, [256, n].

    Where 1 / d overflows (amax below 2^-128) or x is not finite, what is no number becomes digit 1, that is 0.
    """
    x = lanes(rows, 256)
    d = largest_after_nan(x)
    ratio = round_half_away(x * reciprocal(d))
    ratio[~np.isfinite(ratio)] = 0
    return d, (ratio.astype(np.int32) + 1).astype(np.uint8)
