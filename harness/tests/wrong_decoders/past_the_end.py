"""Writes one element past the end of its output, found through the memory's base."""

import numpy as np

from kernels.provider import dequantize as right


def dequantize(encoding, data, shape, out):
    right(encoding, data, shape, out=out)
    memory = out
    while memory.base is not None:
        memory = memory.base
    end = 4096 + out.nbytes
    memory.reshape(-1)[end : end + 4] = np.frombuffer(np.float32(1).tobytes(), np.uint8)
    return out
