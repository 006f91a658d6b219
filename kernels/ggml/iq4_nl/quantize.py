"""IQ4_NL: the scale is searched for, then each weight gets the code of the nearest of sixteen values."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_nonlinear import NearestValue, search
from kernels.common.numpy.quantize_steps import (
    f32,
    half_bytes,
    importance,
    lanes,
    reciprocal,
    row_bytes,
    square_sum,
    to_half,
)


def encode(
    rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None, *, kvalues: NDArray[np.int8]
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; kvalues int8 [16].

    The search runs under x^2, with weights under weight * sqrt(2 * mean square of the block + x^2).
    """
    x = lanes(rows, 32)
    nearest = NearestValue(kvalues)
    if weights is None:
        w = x * x
    else:
        blocks = rows.reshape(-1, 32)
        w = importance(blocks, weights.reshape(-1, 32), 32, square_sum(blocks) * f32(2 / 32))
    d = search(x, w, nearest, int(kvalues[0]))
    q = nearest.code(reciprocal(d) * x)
    out = np.empty((x.shape[1], 18), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:18] = (q[:16] | q[16:] << 4).T
    return row_bytes(out, rows)
