"""One element of 2^27 is one ulp too large, at an offset that only a large tensor has."""

import numpy as np

from kernels.provider import dequantize as right

INDEX = 100_000_019


def dequantize(encoding, data, shape):
    values = right(encoding, data, shape)
    if values.size > INDEX:
        values.reshape(-1).view(np.uint32)[INDEX] += 1
    return values
