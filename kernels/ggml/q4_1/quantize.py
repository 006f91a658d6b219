"""Q4_1: the least value gets code 0 and the greatest 15; with weights both are searched for."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_affine import plain_or_searched
from kernels.common.numpy.quantize_steps import half_bytes, lanes, row_bytes, row_importance, to_half


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes].

    Without weights m = least, d = (greatest - least) / 15 and q = min(15, trunc((x - m) * (1 / d) + 0.5)).
    With weights d, -m and q come from the search, under weight * sqrt(mean square of the row + x^2).
    """
    importance = None if weights is None else row_importance(rows, weights, 32)
    d, m, q = plain_or_searched(lanes(rows, 32), 15, importance, limited=True)
    out = np.empty((len(d), 20), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:4] = half_bytes(to_half(m))
    out[:, 4:20] = (q[:16] | q[16:] << 4).T
    return row_bytes(out, rows)
