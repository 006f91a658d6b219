"""Q1_0: the mean magnitude and a sign a weight."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import f32, half_bytes, lanes, ordered_sum, row_bytes, to_half


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes]. Weights have no effect.

    d = sum |x| / 128, summed from the left in float32; the bit is set where x >= 0, for -0.0 too.
    """
    x = lanes(rows, 128)
    out = np.empty((x.shape[1], 18), np.uint8)
    out[:, 0:2] = half_bytes(to_half(ordered_sum(np.abs(x)) / f32(128)))
    out[:, 2:18] = np.packbits((x >= 0).T, axis=1, bitorder="little")
    return row_bytes(out, rows)
