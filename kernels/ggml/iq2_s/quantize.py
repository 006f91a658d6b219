"""IQ2_S: eight magnitudes to a row of 1024, a sign bit a weight, a scale for 16 weights."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import grid_of
from kernels.common.numpy.quantize_grid_scale import Plan, encode_blocks, scale_codes
from kernels.common.numpy.quantize_k import super_block_importance, super_block_mean_square
from kernels.common.numpy.quantize_steps import f32, half_bytes, lanes, row_bytes, to_half

PLAN = Plan(steps=9, step=0.1, smallest=1e-8, even_signs=False)


def encode(
    rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None, *, grid: NDArray[np.int8]
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; grid int8 [1024, 8].

    With m twice the mean square of the super-block the search runs under m / 4 + x^2, with weights under
    weight * sqrt(m + x^2).
    """
    x = lanes(rows, 16)
    if weights is None:
        w = np.repeat(f32(0.25) * super_block_mean_square(rows, 2), 16) + x * x
    else:
        w = super_block_importance(rows, weights, 16, 2)
    scales, found, signs = encode_blocks(PLAN, grid_of(grid, 1), x, w)
    d, codes = scale_codes(scales, 16, 0.9875)
    index = found.T.reshape(-1, 32)
    high = (index >> 8).astype(np.uint8).reshape(-1, 8, 4) << np.arange(0, 8, 2, dtype=np.uint8)
    out = np.empty((len(index), 82), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:34] = index & 255
    out[:, 34:66] = signs.T.reshape(-1, 32)
    out[:, 66:74] = np.bitwise_or.reduce(high, axis=2)
    out[:, 74:82] = codes[:, 0::2] | codes[:, 1::2] << 4
    return row_bytes(out, rows)
