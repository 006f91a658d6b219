"""Q4_0: the value of largest magnitude gets code 0, that is -8; with weights the scale is searched for."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import half_bytes, lanes, row_bytes, row_importance, to_half
from kernels.common.numpy.quantize_symmetric import plain_or_searched


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes].

    Without weights d = (value of largest magnitude) / -8 and q = min(15, trunc(x / d + 8.5)), x / d being x * (1 / d).
    With weights d and q = l + 8 come from the search, under weight * sqrt(mean square of the row + x^2).
    """
    importance = None if weights is None else row_importance(rows, weights, 32)
    d, q = plain_or_searched(lanes(rows, 32), 8, importance)
    out = np.empty((len(d), 18), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:18] = (q[:16] | q[16:] << 4).T
    return row_bytes(out, rows)
