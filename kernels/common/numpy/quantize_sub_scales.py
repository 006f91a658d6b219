"""Search for the scale of codes 0 .. nmax of values that are not negative: the scales and minima of a super-block."""

from __future__ import annotations

import numpy as np

from kernels.common.numpy.quantize_steps import Floats, Ints, f32, nearest_int, ordered_sum
from kernels.common.numpy.quantize_symmetric import ALL_ZERO


def search(x: Floats, weights: Floats, nmax: int) -> tuple[Floats, Ints]:
    """Scale [n] and codes 0 .. nmax [k, n] of x [k, n] under weights [k, n].

    First the code that the largest value gets: nmax + step / 10 for step -4 .. 4, least sum w (x - scale l)^2. Then at
    most five passes that set one code at a time to the best one for the other lanes' scale (as `quantize_symmetric`).

    A value below 0 (a magnitude whose sign was changed) counts with its negative code in the sums, but the engine keeps
    codes as bytes: -1 comes back as 255, in the first candidate's error and in the passes.
    """
    top = np.zeros(x.shape[1:], f32)
    for lane in x:
        np.copyto(top, lane, where=~(top > lane))

    def error_of(code: Ints, scale: Floats) -> Floats:
        gap = x - scale * code.astype(f32)
        return ordered_sum(weights * gap * gap)

    chosen = f32(nmax) / top
    best = error_of(nearest_int(chosen * x) & 255, f32(1) / chosen)
    for step in (*range(-4, 0), *range(1, 5)):
        inverse = (f32(0.1) * f32(step) + f32(nmax)) / top
        error = error_of(np.minimum(nearest_int(inverse * x), nmax), f32(1) / inverse)
        better = error < best
        np.copyto(best, error, where=better)
        np.copyto(chosen, inverse, where=better)

    whole = np.minimum(nearest_int(chosen * x), nmax)
    codes, kept = whole.astype(f32), (whole & 255).astype(f32)
    wx = weights * x
    xl, ll = ordered_sum(wx * codes), ordered_sum(weights * codes * codes)
    for _ in range(5):
        changed = False
        for lane, weight, weighted, code in zip(x, weights, wx, kept, strict=True):
            other_xl, other_ll = xl - weighted * code, ll - weight * code * code
            possible = (other_xl > 0) & (other_ll > 0)
            new_whole = np.minimum(nearest_int(lane * other_ll / other_xl), nmax)
            new = new_whole.astype(f32)
            possible &= new != code
            other_xl += weighted * new
            other_ll += weight * new * new
            possible &= other_xl * other_xl * ll > xl * xl * other_ll
            np.copyto(code, (new_whole & 255).astype(f32), where=possible)
            np.copyto(xl, other_xl, where=possible)
            np.copyto(ll, other_ll, where=possible)
            changed = changed or bool(possible.any())
        if not changed:
            break
    scale = np.divide(xl, ll, out=np.zeros_like(xl), where=ll > 0)
    stored = kept.astype(np.int32)
    empty = top < ALL_ZERO
    stored[:, empty] = 0
    scale[empty] = 0
    return scale, stored
