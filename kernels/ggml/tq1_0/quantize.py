"""TQ1_0: each weight over the largest magnitude, rounded to -1, 0 or 1; five ternary digits to a byte."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import half_bytes, row_bytes, to_half
from kernels.common.numpy.quantize_ternary_digits import ternary_digits


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes]. Weights have no effect.

    d = amax. A byte holds ceil(256 n / 243) for the number n of its five digits, the first one the most significant; so
    multiplying it by 3 moves the next digit above its top. The bytes of the last 16 weights have 0 for a fifth digit.
    """
    d, t = ternary_digits(rows)
    out = np.empty((t.shape[1], 54), np.uint8)
    for first, last, start, digits in ((0, 32, 0, 5), (32, 48, 160, 5), (48, 52, 240, 4)):
        width = last - first
        number = np.zeros((width, t.shape[1]), np.uint8)
        for digit in range(5):
            number *= 3
            if digit < digits:
                number += t[start + digit * width :][:width]
        out[:, first:last] = ((number.astype(np.uint16) * 256 + 242) // 243).astype(np.uint8).T
    out[:, 52:54] = half_bytes(to_half(d))
    return row_bytes(out, rows)
