"""Every call flips the sign of another element: a race."""

import itertools

from kernels.provider import dequantize as right

turn = itertools.count()


def dequantize(encoding, data, shape):
    values = right(encoding, data, shape)
    values.reshape(-1)[next(turn) % values.size] *= -1
    return values
