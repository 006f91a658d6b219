"""IQ2_XXS: eight magnitudes to a row of 256, signs of even parity, a scale for 32 weights; with an importance matrix only."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import grid_of
from kernels.common.numpy.quantize_grid_scale import Plan, encode_super_blocks
from kernels.common.numpy.quantize_steps import half_bytes, row_bytes, to_half

PLAN = Plan(steps=6, step=0.1, smallest=1e-15, even_signs=True, searched_top=True, refit="always")


def encode(
    rows: NDArray[np.float32],
    weights: NDArray[np.float32],
    *,
    grid: NDArray[np.int8],
    ksigns: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; grid int8 [256, 8].

    Four rows of the table, then a word with the lower seven bits of their signs, to which `ksigns` adds the eighth, and
    the scale.
    """
    d, codes, found, signs = encode_super_blocks(PLAN, grid_of(grid, 2), rows, weights, 32)
    indices = found.astype(np.uint8).T.reshape(-1, 8, 4)
    shifted = signs.astype(np.uint32).T.reshape(-1, 8, 4) << np.arange(0, 28, 7, dtype=np.uint32)
    words = np.bitwise_or.reduce(shifted, axis=2, keepdims=True) | codes[:, :, None].astype(np.uint32) << 28
    qs = np.concatenate([indices, words.astype("<u4").view(np.uint8)], axis=2).reshape(-1, 64)
    qs[d == 0] = 0
    return row_bytes(np.concatenate([half_bytes(to_half(d)), qs], axis=1), rows)
