"""8-bit codes of activations in blocks of 32, as the engine's AVX2 code computes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import Floats, Ints, f32, truncated


def activation_codes(x: Floats) -> tuple[Floats, NDArray[np.int8], Ints]:
    """d = amax / 127 [n], q = round(x * (127 / amax)), half to even, [32, n], and sum of q [n], of x [32, n].

    The engine's generic code uses the reciprocal of d and rounds half away from zero: now and then a code differs by one.
    Where 127 / amax overflows (amax below 3.8e-37), or x is not finite, what is no number counts as -2^31 in the sum,
    which wraps, and becomes code -128.
    """
    largest = largest_in_pairs(np.abs(x))
    inverse = np.divide(f32(127), largest, out=np.zeros_like(largest), where=largest != 0)
    whole = truncated(np.rint(x * inverse))
    total = np.add.reduce(whole, axis=0, dtype=np.int32)
    return largest / f32(127), np.clip(whole, -128, 127).astype(np.int8), total


def largest_in_pairs(magnitude: Floats) -> Floats:
    """Largest [n] of [32, n], compared in the order of the engine's vector code, where a NaN yields to the other operand
    when it is the first and stays when it is the second."""
    eight = magnitude[0:8]
    for start in (8, 16, 24):
        eight = first_if_larger(eight, magnitude[start : start + 8])
    four = first_if_larger(eight[4:8], eight[0:4])
    two = first_if_larger(four[0:2], four[2:4])
    return first_if_larger(two[0], two[1])


def first_if_larger(first: Floats, second: Floats) -> Floats:
    """first where it is larger than second, else second."""
    return np.where(first > second, first, second)
