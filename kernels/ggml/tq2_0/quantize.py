"""TQ2_0: each weight over the largest magnitude, rounded to -1, 0 or 1; two bits each."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import half_bytes, row_bytes, to_half
from kernels.common.numpy.quantize_ternary_digits import ternary_digits


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes]; d = amax. Weights have no effect."""
    d, t = ternary_digits(rows)
    runs = t.reshape(2, 4, 32, -1) & 3
    packed = runs[:, 0] | runs[:, 1] << 2 | runs[:, 2] << 4 | runs[:, 3] << 6
    out = np.empty((t.shape[1], 66), np.uint8)
    out[:, 0:64] = packed.reshape(64, -1).T
    out[:, 64:66] = half_bytes(to_half(d))
    return row_bytes(out, rows)
