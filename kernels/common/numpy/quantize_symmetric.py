"""Search for the scale of codes that are symmetric about zero: y = scale * l, l in -nmax .. nmax - 1.

Given the codes, the weighted squared error sum w (x - scale l)^2 is least at scale = sum w x l / sum w l^2, and what that
removes is (sum w x l)^2 / sum w l^2. Both searches look for codes that make it large. Sums run in lane order in float32.
"""

from __future__ import annotations

import numpy as np

from kernels.common.numpy.quantize_steps import (
    Bytes,
    Floats,
    Ints,
    clipped_int,
    f32,
    largest_magnitude,
    ordered_sum,
    reciprocal,
    truncated,
)

ALL_ZERO = f32(1e-15)
"""A block whose largest magnitude lies below this is stored as zeros."""


def search(x: Floats, nmax: int, weights: Floats | None = None) -> tuple[Floats, Ints]:
    """Scale [n] and codes + nmax [k, n] of x [k, n]; weights [k, n] or, without, the squares of x.

    The value of largest magnitude is put at -nmax, then at -(nmax + step / 10) for step -9 .. 9; the best is kept.
    Blocks of (nearly) nothing: scale 0 and codes 0, not nmax.
    """
    size, top = largest_magnitude(x)
    w = x * x if weights is None else weights
    wx = w * x

    def sums(inverse: Floats) -> tuple[Floats, Floats]:
        code = clipped_int(inverse * x, -nmax, nmax - 1).astype(f32)
        return ordered_sum(wx * code), ordered_sum(w * code * code)

    chosen = f32(-nmax) / top
    xl, ll = sums(chosen)
    scale = np.divide(xl, ll, out=np.zeros_like(xl), where=ll != 0)
    best = scale * xl
    for step in (*range(-9, 0), *range(1, 10)):
        inverse = -(f32(nmax) + f32(0.1) * f32(step)) / top
        xl, ll = sums(inverse)
        better = (ll > 0) & (xl * xl > best * ll)
        np.copyto(chosen, inverse, where=better)
        np.divide(xl, ll, out=scale, where=better)
        np.multiply(scale, xl, out=best, where=better)
    codes = clipped_int(chosen * x, -nmax, nmax - 1) + np.int32(nmax)
    empty = size < ALL_ZERO
    codes[:, empty] = 0
    scale[empty] = 0
    return scale, codes


def plain_or_searched(x: Floats, nmax: int, weights: Floats | None) -> tuple[Floats, Bytes]:
    """Scale [n] and codes 0 .. 2 nmax - 1 [k, n] of x [k, n]: what Q4_0 (nmax 8) and Q5_0 (nmax 16) do alike.

    Without weights d = (value of largest magnitude) / -nmax and q = min(2 nmax - 1, trunc(x * (1 / d) + nmax + 0.5)),
    else both come from `search`.
    """
    if weights is not None:
        d, q = search(x, nmax, weights)
        return d, q.astype(np.uint8)
    d = largest_magnitude(x)[1] / f32(-nmax)
    plain = truncated(x * reciprocal(d) + f32(nmax + 0.5)).astype(np.int8)
    return d, np.minimum(plain, 2 * nmax - 1).astype(np.uint8)


def descend(x: Floats, nmax: int) -> tuple[Floats, Ints]:
    """Scale [n] and codes + nmax [k, n] of x [k, n] under the weights x^2, one code changed at a time.

    Starts with the value of largest magnitude at -nmax. Then at most five passes over the lanes: each code is set to the
    value that is best for the other lanes' scale, if that removes more error.
    """
    size, top = largest_magnitude(x)
    w = x * x
    wx = w * x
    codes = clipped_int(f32(-nmax) / top * x, -nmax, nmax - 1).astype(f32)
    xl, ll = ordered_sum(wx * codes), ordered_sum(w * codes * codes)
    for _ in range(5):
        changed = False
        for lane, weight, weighted, code in zip(x, w, wx, codes, strict=True):
            other_xl, other_ll = xl - weighted * code, ll - weight * code * code
            new = clipped_int(lane * other_ll / other_xl, -nmax, nmax - 1).astype(f32)
            moved = (other_xl > 0) & (new != code)
            other_xl += weighted * new
            other_ll += weight * new * new
            moved &= (other_ll > 0) & (other_xl * other_xl * ll > xl * xl * other_ll)
            np.copyto(code, new, where=moved)
            np.copyto(xl, other_xl, where=moved)
            np.copyto(ll, other_ll, where=moved)
            changed = changed or bool(moved.any())
        if not changed:
            break
    scale = np.divide(xl, ll, out=np.zeros_like(xl), where=ll > 0)
    whole = codes.astype(np.int32) + np.int32(nmax)
    empty = size < ALL_ZERO
    whole[:, empty] = 0
    scale[empty] = 0
    return scale, whole
