"""IQ1_M: eight of -1, 0, 1 to a row of 2048 with a shift of its own, a scale for 16 weights."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import grid_of
from kernels.common.numpy.quantize_k import super_block_importance
from kernels.common.numpy.quantize_shifted import scale_codes, search, shifted_up, values_of
from kernels.common.numpy.quantize_steps import f32, lanes, ordered_sum, row_bytes, to_half


def encode(
    rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None, *, grid: NDArray[np.int8]
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; grid int8 [2048, 8].

    The search runs under x^2, with weights under weight * sqrt(2 * mean square of the super-block + x^2). The largest
    scale gets the code 7 (that is 15); then d is fitted to all codes of the super-block and stored times 1.1125, an
    experience of the engine's authors.
    """
    x = lanes(rows, 16)
    w = x * x if weights is None else super_block_importance(rows, weights, 16, 2)
    table = grid_of(grid, 3)
    scales, found, choice = search(table, x, w, 1e-7, halves=True)
    d, codes = scale_codes(scales, 16)
    up = shifted_up(choice, 2, halves=True)
    value = values_of(table, found, up) * (2 * codes.reshape(-1).astype(np.float32) + 1)
    term = w * value
    vx, vv = (ordered_sum(lanes(np.ascontiguousarray(part.T), 256)) for part in (term * x, term * value))
    fitted = np.divide(vx, vv, out=d.copy(), where=vv > 0)
    half = to_half(np.where(d == 0, f32(0), fitted * f32(1.1125))).view(np.uint16)[:, None]

    down = np.where((d > 0).repeat(16), ~up, False).astype(np.uint8)
    nibbles = (found >> 8).astype(np.uint8) | down << 3
    three = codes.reshape(-1, 4, 4).astype(np.uint16) << np.arange(0, 12, 3, dtype=np.uint16)
    words = np.bitwise_or.reduce(three, axis=2) | (half >> np.arange(0, 16, 4, dtype=np.uint16) & 15) << 12
    out = np.empty((len(codes), 56), np.uint8)
    out[:, 0:32] = found.T.reshape(-1, 32) & 255
    out[:, 32:48] = (nibbles[0] | nibbles[1] << 4).reshape(-1, 16)
    out[:, 48:56] = words.astype("<u2").view(np.uint8)
    return row_bytes(out, rows)
