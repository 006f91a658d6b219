"""IQ3_XXS: four magnitudes to a row of 256, signs of even parity, a scale for 32 weights."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import grid_of
from kernels.common.numpy.quantize_grid_scale import Plan, encode_blocks, scale_codes
from kernels.common.numpy.quantize_k import super_block_importance
from kernels.common.numpy.quantize_steps import half_bytes, lanes, row_bytes, to_half

PLAN = Plan(steps=15, step=0.2, smallest=1e-8, even_signs=True)


def encode(
    rows: NDArray[np.float32],
    weights: NDArray[np.float32] | None = None,
    *,
    grid: NDArray[np.int8],
    ksigns: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; grid int8 [256, 4].

    The search runs under x^2, with weights under weight * sqrt(2 * mean square of the super-block + x^2). The sign index
    is the lower seven bits of the signs: `ksigns` adds the eighth.
    """
    x = lanes(rows, 32)
    w = x * x if weights is None else super_block_importance(rows, weights, 32, 2)
    scales, found, signs = encode_blocks(PLAN, grid_of(grid, 2), x, w)
    d, codes = scale_codes(scales, 8, 1.0125)
    shifted = (signs & 127).astype(np.uint32).T.reshape(-1, 8, 4) << np.arange(0, 28, 7, dtype=np.uint32)
    words = np.bitwise_or.reduce(shifted, axis=2) | codes.astype(np.uint32) << 28
    out = np.empty((len(codes), 98), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:66] = found.T.reshape(-1, 64)
    out[:, 66:98] = words.astype("<u4").view(np.uint8)
    out[d == 0] = 0
    return row_bytes(out, rows)
