"""What the super-block encodings Q2_K .. Q6_K share: importance, packed scales and minima, and the final codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_affine import search as search_affine
from kernels.common.numpy.quantize_steps import (
    Bytes,
    Floats,
    Ints,
    clipped_int,
    f32,
    from_half,
    importance,
    lanes,
    nearest_int,
    ordered_sum,
    square_sum,
    to_half,
)
from kernels.common.numpy.quantize_sub_scales import search as search_sub_scales

SUPER = 256


def super_block_mean_square(rows: Floats, factor: int) -> Floats:
    """factor * mean of the squares of each super-block: [n_blocks]."""
    return f32(factor) * square_sum(rows.reshape(-1, SUPER)) / f32(SUPER)


def super_block_importance(rows: Floats, weights: Floats, block: int, factor: int) -> Floats:
    """weight * sqrt(factor * mean square of the super-block + x^2) as lanes [block, n_sub_blocks]."""
    mean = super_block_mean_square(rows, factor)
    return importance(rows.reshape(-1, SUPER), weights.reshape(-1, SUPER), block, mean)


def per_super_block(values: Floats, block: int) -> Floats:
    """One value for each sub-block, [n_sub_blocks], as lanes [sub-blocks of a super-block, n_blocks]."""
    return lanes(values, SUPER // block)


def relative_to_largest(x: Floats, nmax: int) -> tuple[Floats, Ints]:
    """Scale [n] that gives the largest of x [k, n] the code nmax, and codes [k, n]; both 0 where nothing is above 0."""
    top = np.fmax.reduce(x, axis=0, initial=0) + f32(0)  # a minimum of -0.0 counts as 0
    inverse = np.divide(f32(nmax), top, out=np.zeros_like(top), where=top > 0)
    return top / f32(nmax), nearest_int(inverse * x)


def affine_codes(x: Floats, sub_scale: Floats, sub_minimum: Floats, nmax: int, searched: Ints) -> Bytes:
    """Codes [block, n_sub_blocks] for the stored scales d * sc and minima dmin * mn [n_sub_blocks].

    min(nmax, max(0, nearest((x + minimum) / scale))), half to even; where the scale is 0 the searched codes stay.
    """
    codes = clipped_int((x + sub_minimum) / sub_scale, 0, nmax)
    np.copyto(codes, searched, where=sub_scale == 0)
    return codes.astype(np.uint8)


def symmetric_codes(x: Floats, sub_scale: Floats, nmax: int, searched: Ints) -> Bytes:
    """Codes + nmax [block, n_sub_blocks] for the stored scales; where the scale is 0 the searched codes stay."""
    codes = clipped_int(x / sub_scale, -nmax, nmax - 1) + np.int32(nmax)
    np.copyto(codes, searched, where=sub_scale == 0)
    return codes.astype(np.uint8)


def in_order(codes: Bytes) -> Bytes:
    """Codes of sub-blocks [block, n_sub_blocks] to super-blocks [n_blocks, 256]."""
    return np.ascontiguousarray(codes.T).reshape(-1, SUPER)


def pack_quarters(codes: NDArray[Any]) -> Bytes:
    """Codes 0 .. 3 [n, 256] to bytes [n, 64]: for each half, bits 2 s and 2 s + 1 hold the run s of 32 codes."""
    runs = codes.reshape(-1, 2, 4, 32)
    packed: NDArray[Any] = runs[:, :, 0] | runs[:, :, 1] << 2 | runs[:, :, 2] << 4 | runs[:, :, 3] << 6
    return packed.reshape(-1, 64)


def pack_scales_and_minima(sc: NDArray[Any], mn: NDArray[Any]) -> Bytes:
    """Eight 6-bit scales and minima [n, 8] to 12 bytes: the first four of each whole, the others in two parts."""
    low, high, low_minimum, high_minimum = sc[:, :4], sc[:, 4:], mn[:, :4], mn[:, 4:]
    return np.concatenate(
        [low | high >> 4 << 6, low_minimum | high_minimum >> 4 << 6, high & 15 | high_minimum << 4], axis=1
    )


def unpack_scales_and_minima(packed: Bytes) -> tuple[Bytes, Bytes]:
    """What a decoder reads out of the 12 bytes: scales and minima [n, 8]."""
    low, low_minimum, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    return (
        np.concatenate([low & 63, high & 15 | low >> 6 << 4], axis=1),
        np.concatenate([low_minimum & 63, high >> 4 | low_minimum >> 6 << 4], axis=1),
    )


def encode_4_or_5_bits(
    rows: Floats, weights: Floats | None, nmax: int, first: float, steps: int, *, limited: bool = True
) -> tuple[Bytes, Bytes]:
    """The header of Q4_K and Q5_K [n_blocks, 16]: d, dmin, packed scales and minima; and their codes [n_blocks, 256].

    Without weights each sub-block is searched under root mean square + |x|, and d and dmin give the largest scale and
    minimum the code 63. With weights under weight * sqrt(2 * mean square of the super-block + x^2), and d and dmin are
    searched for, under the sums of those weights.

    A search without a good end, among columns of weight 0, may give a negative scale and so a code of 255. `limited`: it
    becomes 63; without, its upper bits spoil the scale that shares the byte, as in the engine's Q4_K.
    """
    x = lanes(rows, 32)
    if weights is None:
        root = np.sqrt(ordered_sum(x * x) / f32(32))
        scale, minimum, searched = search_affine(x, root + np.abs(x), nmax, first, 0.1, steps)
        d, sc = relative_to_largest(per_super_block(scale, 32), 63)
        dmin, mn = relative_to_largest(per_super_block(minimum, 32), 63)
    else:
        w = super_block_importance(rows, weights, 32, 2)
        scale, minimum, searched = search_affine(x, w, nmax, -0.9, 0.05, 36, limit_first=True)
        sums = per_super_block(ordered_sum(w), 32)
        d, sc = search_sub_scales(per_super_block(scale, 32), sums, 63)
        dmin, mn = search_sub_scales(per_super_block(minimum, 32), sums, 63)
    limit = 63 if limited else 255
    packed = pack_scales_and_minima(*(np.minimum(part.astype(np.uint8), limit).T for part in (sc, mn)))
    parts = unpack_scales_and_minima(packed)
    halves = to_half(np.stack([d, dmin], axis=1))
    stored = from_half(halves)
    sub_scale, sub_minimum = ((stored[:, i, None] * part).reshape(-1) for i, part in enumerate(parts))
    codes = affine_codes(x, sub_scale, sub_minimum, nmax, searched)
    return np.concatenate([halves.view(np.uint8), packed], axis=1), in_order(codes)
