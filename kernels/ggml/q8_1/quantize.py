"""Q8_1, for activations only: the largest magnitude gets code 127, and d times the sum of the codes is kept beside."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_activations import activation_codes
from kernels.common.numpy.quantize_steps import f32, half_bytes, lanes, row_bytes, to_half


def encode_activation(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes].

    d = amax / 127, q = round(x * (127 / amax)), half to even, s = d * sum of q with the float32 d.
    """
    x = lanes(rows, 32)
    d, q, total = activation_codes(x)
    out = np.empty((x.shape[1], 36), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:4] = half_bytes(to_half(d * total.astype(f32)))
    out[:, 4:36] = q.T.view(np.uint8)
    return row_bytes(out, rows)
