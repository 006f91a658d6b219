"""The loop stops one block early: the last block of the tensor keeps what was in memory."""

from kernels.provider import dequantize as right
from kernels.units import unit


def dequantize(encoding, data, shape, out):
    width = unit(encoding).block_elems
    values = right(encoding, data, shape).reshape(-1)
    out.reshape(-1)[:-width] = values[:-width]
    return out
