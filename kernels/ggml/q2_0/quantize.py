"""Q2_0: each weight over the largest magnitude, rounded and limited to -1 .. 2; 2 never occurs in what this writes."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import (
    half_bytes,
    lanes,
    largest_magnitude,
    reciprocal,
    round_half_away,
    row_bytes,
    to_half,
    truncated,
)


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes]. Weights have no effect.

    d = amax, q = round(x * (1 / d)) + 1, half away from zero, in 0 .. 3.
    """
    x = lanes(rows, 64)
    d = largest_magnitude(x)[0]
    q = np.clip(truncated(round_half_away(x * reciprocal(d))) + 1, 0, 3).astype(np.uint8)
    out = np.empty((x.shape[1], 18), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:18] = (q[0::4] | q[1::4] << 2 | q[2::4] << 4 | q[3::4] << 6).T
    return row_bytes(out, rows)
