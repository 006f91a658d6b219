"""Q8_K, for activations only: the value of largest magnitude gets code -127; sums of 16 codes are kept beside."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import f32, lanes, largest_magnitude, nearest_int, row_bytes


def encode_activation(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes].

    With s = -127 / (value of largest magnitude): q = min(127, nearest(x * s)), half to even, and d = 1 / s.
    A block of zeros has d = 0 and codes 0; the engine leaves its sums as they were, ours are 0.
    """
    x = lanes(rows, 256)
    size, top = largest_magnitude(x)
    scale = f32(-127) / top
    q = np.minimum(nearest_int(x * scale), 127).astype(np.int8)
    d = f32(1) / scale
    empty = size == 0
    q[:, empty] = 0
    d[empty] = 0
    out = np.empty((x.shape[1], 292), np.uint8)
    out[:, 0:4] = d.reshape(-1, 1).view(np.uint8)
    out[:, 4:260] = q.T.view(np.uint8)
    sums = q.reshape(16, 16, -1).sum(axis=1, dtype=np.int16)
    out[:, 260:292] = np.ascontiguousarray(sums.T, "<i2").view(np.uint8)
    return row_bytes(out, rows)
