"""NVFP4 as ggml stores it: y = ue4m3(d) / 2 * kvalues[q], kvalues being twice the E2M1 values."""

import numpy as np
from numpy.typing import NDArray


def half_ue4m3(byte: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Half the value of an unsigned E4M3 byte; 0x7F is 0 instead of NaN, and bit 7 is dropped save for that test."""
    exponent, fraction = (byte >> 3 & 15).astype(np.int32), (byte & 7).astype(np.float32)
    value = np.where(exponent == 0, np.ldexp(fraction, -10), np.ldexp(fraction + 8, exponent - 11))
    return np.where(byte == 0x7F, np.float32(0), value)


def decode(
    blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None, *, kvalues: NDArray[np.int8]
) -> NDArray[np.float32]:
    """[n, 36] uint8 to [n, 64] float32; kvalues int8 [16]."""
    n = len(blocks)
    out = np.empty((n, 64), np.float32) if out is None else out
    d, qs = blocks[:, 0:4], blocks[:, 4:36].reshape(n, 4, 8)
    q = np.empty((n, 4, 2, 8), np.uint8)
    np.bitwise_and(qs, 15, out=q[:, :, 0])
    np.right_shift(qs, 4, out=q[:, :, 1])
    np.take(kvalues.astype(np.float32), q.reshape(n, 64), out=out, mode="clip")
    y = out.reshape(n, 4, 16)
    y *= half_ue4m3(d)[:, :, None]
    return out


def unscale(blocks: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """The scales, float32 [n, 4], one for 16 weights, and the blocks with the scales one."""
    at_one = blocks.copy()
    at_one[:, 0:4] = 0x40
    return half_ue4m3(blocks[:, 0:4]), at_one
