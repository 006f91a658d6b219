"""Search for the scale of codes that stand for the unevenly spaced values of IQ4_NL and IQ4_XS."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import Bytes, Floats, f32, largest_magnitude, ordered_sum
from kernels.common.numpy.quantize_symmetric import ALL_ZERO


class NearestValue:
    """Nearest of `values` int8 [16], ascending; half-way to the upper one, as is a NaN to the last.

    The limits between values are multiples of a half: the integer below 2 x decides, by a table.
    """

    def __init__(self, values: NDArray[np.int8]) -> None:
        whole = values.astype(np.int32)
        limits = whole[:-1] + whole[1:]
        self._first, self._last = f32(limits[0] - 1), f32(limits[-1])
        steps = np.arange(limits[0] - 1, limits[-1] + 1)
        self._code = np.searchsorted(limits, steps, side="right").astype(np.uint8)
        self._value = values[self._code].astype(np.float32)

    def _step(self, x: Floats) -> NDArray[np.intp]:
        step = np.floor(x + x)
        np.fmin(step, self._last, out=step)
        np.fmax(step, self._first, out=step)
        step -= self._first
        position: NDArray[np.intp] = step.astype(np.intp)
        return position

    def code(self, x: Floats) -> Bytes:
        """Position in `values`, of x's shape."""
        return np.take(self._code, self._step(x), mode="clip")

    def value(self, x: Floats) -> Floats:
        """The value itself, of x's shape."""
        return np.take(self._value, self._step(x), mode="clip")


def search(x: Floats, weights: Floats, nearest: NearestValue, first: int) -> Floats:
    """Scale [n] of x [32, n] under weights [32, n], with which sum w (x - scale * value)^2 is small.

    The value of largest magnitude is put at `first`, the least of the values, then at first + step for step -7 .. 7; what
    removes most error, (sum w v x)^2 / sum w v^2, is kept. Scale 0 for a block of (nearly) nothing.
    """
    size, top = largest_magnitude(x)

    def sums(inverse: Floats) -> tuple[Floats, Floats]:
        value = nearest.value(inverse * x)
        term = weights * value
        square = term * value
        term *= x
        return ordered_sum(term), ordered_sum(square)

    vx, vv = sums(f32(1) / (-top / f32(first)))
    scale = np.divide(vx, vv, out=np.zeros_like(vx), where=vv > 0)
    best = scale * vx
    for step in range(-7, 8):
        vx, vv = sums(f32(step + first) / top)
        better = (vv > 0) & (vx * vx > best * vv)
        np.divide(vx, vv, out=scale, where=better)
        np.multiply(scale, vx, out=best, where=better)
    scale[size < ALL_ZERO] = 0
    return scale
