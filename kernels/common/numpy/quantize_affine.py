"""Search for the scale and the minimum of codes 0 .. nmax: y = scale * l - minimum.

Given the codes l, the weighted squared error sum w (scale l + low - x)^2 is least where its two normal equations say, with
S = sum w, L = sum w l, Q = sum w l^2, X = sum w x, P = sum w l x and D = S Q - L^2:
    scale = (S P - X L) / D,   low = (Q X - L P) / D;   where low > 0: low = 0, scale = P / Q.
Sums run in lane order in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import (
    Bytes,
    Floats,
    Ints,
    clipped_int,
    f32,
    ordered_sum,
    reciprocal,
    smallest_and_largest,
    truncated,
)


def search(
    x: Floats,
    weights: Floats,
    nmax: int,
    first: float,
    step: float,
    steps: int,
    *,
    absolute: bool = False,
    limit_first: bool = False,
) -> tuple[Floats, Floats, Ints]:
    """Scale [n], minimum [n] (at least 0) and codes [k, n] of x [k, n] under weights [k, n].

    The candidates put nmax + first + step * i, i in 0 .. steps, on the distance from the minimum to the largest value,
    and are judged by the weighted sum of squared errors, or of absolute ones. A better candidate's minimum is also the
    one from which the following candidates are laid out. `limit_first` limits a candidate's codes to 0 .. nmax before
    they are rounded: another result only where the distance has become so small that its reciprocal is no use.
    """
    low, high = smallest_and_largest(x)
    sum_w, sum_x = (ordered_sum(terms, from_zero=False) for terms in (weights, weights * x))
    low[low > 0] = 0
    flat = high <= low
    flat_minimum = -low[flat]

    def error_of(code: Floats, scale: NDArray[Any], low: NDArray[Any]) -> Floats:
        gap = scale * code
        gap += low
        gap -= x
        if absolute:
            np.abs(gap, out=gap)
        else:
            gap *= gap
        gap *= weights
        return ordered_sum(gap)

    inverse = f32(nmax) / (high - low)
    scale = f32(1) / inverse
    codes = clipped_int(inverse * (x - low), 0, nmax).astype(f32)
    best = error_of(codes, scale, low)
    for i in range(steps + 1):
        inverse = (f32(first) + f32(step) * f32(i) + f32(nmax)) / (high - low)
        code = x - low
        code *= inverse
        code = limited_then_rounded(code, nmax) if limit_first else clipped_int(code, 0, nmax).astype(f32)
        term = weights * code
        sum_l = ordered_sum(term)
        sum_ll = ordered_sum(term * code)
        term *= x
        sum_lx = ordered_sum(term)
        det = sum_w * sum_ll - sum_l * sum_l
        new_scale = (sum_w * sum_lx - sum_x * sum_l) / det
        new_low = (sum_ll * sum_x - sum_l * sum_lx) / det
        above = new_low > 0
        new_low[above] = 0
        np.divide(sum_lx, sum_ll, out=new_scale, where=above)
        error = error_of(code, new_scale, new_low)
        better = (det > 0) & (error < best)
        for kept, new in ((codes, code), (best, error), (scale, new_scale), (low, new_low)):
            np.copyto(kept, new, where=better)
    codes[:, flat] = 0
    scale[flat] = 0
    minimum = -low
    minimum[flat] = flat_minimum
    return scale, minimum, codes.astype(np.int32)


def plain_or_searched(
    x: Floats, nmax: int, weights: Floats | None, *, limited: bool
) -> tuple[Floats, Floats, Bytes]:
    """Scale [n], least value [n] and codes [k, n] of x [k, n]: what Q4_1 (nmax 15) and Q5_1 (nmax 31) do alike.

    Without weights m = least, d = (greatest - least) / nmax and q = trunc((x - m) * (1 / d) + 0.5), `limited` to nmax or
    not: another result only where x is not finite. Else all come from `search`.
    """
    if weights is not None:
        d, minimum, q = search(x, weights, nmax, -0.9, 0.05, 36, limit_first=True)
        return d, -minimum, q.astype(np.uint8)
    m, greatest = smallest_and_largest(x, numbers=True)
    d = (greatest - m) / f32(nmax)
    plain = truncated((x - m) * reciprocal(d) + f32(0.5))
    if limited:
        plain = np.minimum(plain.astype(np.int8), nmax)
    return d, m, plain.astype(np.uint8)


def limited_then_rounded(code: Floats, nmax: int) -> Floats:
    """To 0 .. nmax, 0 for a NaN, then to the nearest integer, half to even; in place."""
    np.fmax(code, f32(0), out=code)
    np.minimum(code, f32(nmax), out=code)
    return np.rint(code, out=code)
