"""Q4_1 that reads the scale of the next block: an index that is off by one."""

import numpy as np

from kernels.provider import dequantize as right


def dequantize(encoding, data, shape):
    blocks = data.reshape(-1, 20).copy()
    blocks[:, 0:2] = np.roll(blocks[:, 0:2], -1, axis=0)
    return right(encoding, blocks.reshape(-1), shape)
