"""Functions that do not even answer properly."""

import os
import time

import numpy as np

from kernels.provider import dequantize as right


def raises(encoding, data, shape):
    raise RuntimeError("no kernel image for this device")


def crashes(encoding, data, shape):
    os.abort()


def hangs(encoding, data, shape):
    time.sleep(3600)


def flattens(encoding, data, shape):
    return right(encoding, data, shape).reshape(-1)


def doubles(encoding, data, shape):
    return right(encoding, data, shape).astype(np.float64)


def returns_nothing(encoding, data, shape):
    right(encoding, data, shape)


def prints(encoding, data, shape):
    print("HQW1 to standard output, as an engine would")
    return right(encoding, data, shape)


def spoils_its_input(encoding, data, shape):
    values = right(encoding, data, shape)
    data[0] ^= 255
    return values
