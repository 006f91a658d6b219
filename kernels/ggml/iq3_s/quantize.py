"""IQ3_S: four magnitudes to a row of 512, a sign bit a weight, a scale for 32 weights."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import grid_of
from kernels.common.numpy.quantize_grid_scale import Plan, encode_blocks, scale_codes
from kernels.common.numpy.quantize_k import super_block_importance
from kernels.common.numpy.quantize_steps import half_bytes, lanes, row_bytes, to_half

PLAN = Plan(steps=9, step=0.2, smallest=2.0**-149, even_signs=False, refit="all")


def encode(
    rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None, *, grid: NDArray[np.int8]
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; grid int8 [512, 4].

    The search runs under x^2, with weights under weight * sqrt(2 * mean square of the super-block + x^2).
    """
    x = lanes(rows, 32)
    w = x * x if weights is None else super_block_importance(rows, weights, 32, 2)
    scales, found, signs = encode_blocks(PLAN, grid_of(grid, 3), x, w)
    d, codes = scale_codes(scales, 8, 1.033)
    index = found.T.reshape(-1, 64)
    out = np.empty((len(index), 110), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:66] = index & 255
    out[:, 66:74] = np.packbits(index >> 8, axis=1, bitorder="little")
    out[:, 74:106] = signs.T.reshape(-1, 32)
    out[:, 106:110] = codes[:, 0::2] | codes[:, 1::2] << 4
    return row_bytes(out, rows)
