"""IQ1_S: eight of -1, 0, 1 to a row of 2048, scale and shift for 32 weights; with an importance matrix only."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import grid_of
from kernels.common.numpy.quantize_k import super_block_importance
from kernels.common.numpy.quantize_shifted import scale_codes, search
from kernels.common.numpy.quantize_steps import f32, half_bytes, lanes, row_bytes, to_half


def encode(
    rows: NDArray[np.float32], weights: NDArray[np.float32], *, grid: NDArray[np.int8]
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; grid int8 [2048, 8].

    The search runs under weight * sqrt(2 * mean square of the super-block + x^2). d gives the largest scale the code 7
    (that is 15) and is stored times 1.125, an experience of the engine's authors.
    """
    w = super_block_importance(rows, weights, 32, 2)
    scales, found, choice = search(grid_of(grid, 3), lanes(rows, 32), w, 1e-12, halves=False)
    d, codes = scale_codes(scales, 8)
    index = found.T.reshape(-1, 8, 4)
    high = np.bitwise_or.reduce(index >> 8 << np.arange(0, 12, 3), axis=2)
    down = (choice.reshape(-1, 8) == 1) & (d > 0)[:, None]
    words = (high | codes.astype(np.int32) << 12 | down.astype(np.int32) << 15).astype("<u2")
    out = np.empty((len(index), 50), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d * f32(1.125)))
    out[:, 2:34] = (index & 255).reshape(-1, 32)
    out[:, 34:50] = words.view(np.uint8)
    return row_bytes(out, rows)
