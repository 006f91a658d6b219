"""IQ2_XXS: eight magnitudes to a row of 256, signs of even parity, a scale for 32 weights; with an importance matrix only."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import grid_of
from kernels.common.numpy.quantize_grid_scale import Plan, encode_blocks, scale_codes
from kernels.common.numpy.quantize_k import super_block_importance
from kernels.common.numpy.quantize_steps import half_bytes, lanes, row_bytes, to_half

PLAN = Plan(steps=6, step=0.1, smallest=1e-15, even_signs=True, searched_top=True, refit="always")


def encode(
    rows: NDArray[np.float32],
    weights: NDArray[np.float32],
    *,
    grid: NDArray[np.int8],
    ksigns: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; grid int8 [256, 8].

    The search runs under weight * sqrt(mean square of the super-block + x^2). The sign index is the lower seven bits of
    the signs: `ksigns` adds the eighth.
    """
    w = super_block_importance(rows, weights, 32, 1)
    scales, found, signs = encode_blocks(PLAN, grid_of(grid, 2), lanes(rows, 32), w)
    d, codes = scale_codes(scales, 8)
    indices = found.astype(np.uint8).T.reshape(-1, 8, 4)
    shifted = (signs & 127).astype(np.uint32).T.reshape(-1, 8, 4) << np.arange(0, 28, 7, dtype=np.uint32)
    words = np.bitwise_or.reduce(shifted, axis=2, keepdims=True) | codes[:, :, None].astype(np.uint32) << 28
    qs = np.concatenate([indices, words.astype("<u4").view(np.uint8)], axis=2).reshape(-1, 64)
    qs[d == 0] = 0
    return row_bytes(np.concatenate([half_bytes(to_half(d)), qs], axis=1), rows)
