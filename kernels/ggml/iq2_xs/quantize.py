"""IQ2_XS: eight magnitudes to a row of 512, signs of even parity, a scale for 16 weights; with an importance matrix only."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import grid_of
from kernels.common.numpy.quantize_grid_scale import Plan, encode_super_blocks
from kernels.common.numpy.quantize_steps import half_bytes, row_bytes, to_half

PLAN = Plan(steps=9, step=0.1, smallest=1e-15, even_signs=True)


def encode(
    rows: NDArray[np.float32],
    weights: NDArray[np.float32],
    *,
    grid: NDArray[np.int8],
    ksigns: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; grid int8 [512, 8].

    A word is a row of the table and the lower seven bits of its signs: `ksigns` adds the eighth.
    """
    d, codes, found, signs = encode_super_blocks(PLAN, grid_of(grid, 2), rows, weights, 16)
    words = (found.astype(np.uint16) | signs.astype(np.uint16) << 9).T.reshape(-1, 32)
    words[d == 0] = 0
    nibbles = codes[:, 0::2] | codes[:, 1::2] << 4
    return row_bytes(
        np.concatenate([half_bytes(to_half(d)), words.astype("<u2").view(np.uint8), nibbles], axis=1), rows
    )
