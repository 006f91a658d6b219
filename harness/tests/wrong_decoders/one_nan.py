"""One NaN in the third row: `error > bound` would not see it."""

import numpy as np

from kernels.provider import dequantize as right


def dequantize(encoding, data, shape):
    values = right(encoding, data, shape)
    values.reshape(-1, shape[-1])[2, 37] = np.nan
    return values
