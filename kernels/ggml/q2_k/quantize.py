"""Q2_K: sub-blocks of 16 with codes 0 .. 3 searched for scale and minimum, both then stored in 4 bits."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_affine import search
from kernels.common.numpy.quantize_k import (
    affine_codes,
    in_order,
    pack_quarters,
    per_super_block,
    relative_to_largest,
    super_block_importance,
)
from kernels.common.numpy.quantize_steps import from_half, lanes, ordered_sum, row_bytes, to_half
from kernels.common.numpy.quantize_sub_scales import search as search_sub_scales


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes].

    Without weights each sub-block is searched for the least sum |x| |error|, and d and dmin give the largest scale and
    minimum the code 15. With weights for the least sum of squares under weight * sqrt(mean square of the super-block +
    x^2), and d and dmin are searched for, under the sums of those weights.
    """
    x = lanes(rows, 16)
    if weights is None:
        scale, minimum, searched = search(x, np.abs(x), 3, -0.5, 0.1, 15, absolute=True)
        d, sc = relative_to_largest(per_super_block(scale, 16), 15)
        dmin, mn = relative_to_largest(per_super_block(minimum, 16), 15)
        sc, mn = (
            sc * (d > 0),
            mn * (dmin > 0),
        )  # scales that are all NaN get code 0 here, not their NaN's bits
    else:
        w = super_block_importance(rows, weights, 16, 1)
        scale, minimum, searched = search(x, w, 3, -0.9, 0.05, 36, limit_first=True)
        sums = per_super_block(ordered_sum(w), 16)
        d, sc = search_sub_scales(per_super_block(scale, 16), sums, 15)
        dmin, mn = search_sub_scales(per_super_block(minimum, 16), sums, 15)
    packed = (sc | mn << 4).astype(np.uint8).T
    halves = to_half(np.stack([d, dmin], axis=1))
    stored = from_half(halves)
    sub_scale = (stored[:, 0:1] * (packed & 15)).reshape(-1)
    sub_minimum = (stored[:, 1:2] * (packed >> 4)).reshape(-1)
    codes = affine_codes(x, sub_scale, sub_minimum, 3, searched)
    out = np.concatenate([packed, pack_quarters(in_order(codes)), halves.view(np.uint8)], axis=1)
    return row_bytes(out, rows)
