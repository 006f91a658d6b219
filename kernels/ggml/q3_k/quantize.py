"""Q3_K: sub-blocks of 16 with codes -4 .. 3 searched for a scale, stored in 6 signed bits."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_k import (
    in_order,
    pack_quarters,
    per_super_block,
    super_block_importance,
    symmetric_codes,
)
from kernels.common.numpy.quantize_steps import (
    f32,
    from_half,
    half_bytes,
    lanes,
    largest_magnitude,
    nearest_int,
    ordered_sum,
    row_bytes,
    to_half,
)
from kernels.common.numpy.quantize_symmetric import descend, search


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes].

    Without weights the codes of a sub-block are improved one at a time, and d gives the scale of largest magnitude the
    code -32. With weights both the scales, under weight * sqrt(2 * mean square of the super-block + x^2), and d, under
    the sums of those weights, are searched for.
    """
    x = lanes(rows, 16)
    if weights is None:
        scale, searched = descend(x, 4)
        scales = per_super_block(scale, 16)
        top = largest_magnitude(scales)[1]
        inverse = f32(-32) / top
        sc = np.clip(nearest_int(inverse * scales).astype(np.int8), -32, 31) + np.int8(32)
        d = f32(1) / inverse
        sc[:, top == 0] = 0
        d[top == 0] = 0
    else:
        w = super_block_importance(rows, weights, 16, 2)
        scale, searched = search(x, 4, w)
        d, sc = search(per_super_block(scale, 16), 32, per_super_block(ordered_sum(w), 16))
    half = to_half(d)
    sub_scale = from_half(half) * (sc - 32).astype(np.float32)
    codes = in_order(symmetric_codes(x, sub_scale.T.reshape(-1), 4, searched))
    out = np.empty((len(codes), 110), np.uint8)
    out[:, 0:32] = np.packbits(codes.reshape(-1, 8, 32) >> 2, axis=1, bitorder="little").reshape(-1, 32)
    out[:, 32:96] = pack_quarters(codes & 3)
    out[:, 96:108] = pack_scales(sc.astype(np.uint8).T)
    out[:, 108:110] = half_bytes(half)
    return row_bytes(out, rows)


def pack_scales(sc: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Sixteen 6-bit scales [n, 16] to 12 bytes: eight of low nibbles, then four of which each holds four pairs of high bits."""
    high = (sc >> 4).reshape(-1, 4, 4)
    pairs = high[:, 0] | high[:, 1] << 2 | high[:, 2] << 4 | high[:, 3] << 6
    return np.concatenate([sc[:, :8] & 15 | sc[:, 8:] << 4, pairs], axis=1)
