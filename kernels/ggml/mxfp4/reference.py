"""MXFP4 as ggml stores it: y = 2^(e - 128) * kvalues[q], kvalues being twice the E2M1 values."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None, *, kvalues: NDArray[np.int8]
) -> NDArray[np.float32]:
    """[n, 17] uint8 to [n, 32] float32; kvalues int8 [16]."""
    n = len(blocks)
    out = np.empty((n, 32), np.float32) if out is None else out
    e, qs = blocks[:, 0:1].astype(np.uint32), blocks[:, 1:17]
    # 2^-128 and 2^-127 are subnormal: their bits are in the fraction.
    d = np.where(e < 2, np.uint32(0x00200000) << e, (e - 1) << 23).astype(np.uint32).view(np.float32)
    q = np.empty((n, 2, 16), np.uint8)
    np.bitwise_and(qs, 15, out=q[:, 0])
    np.right_shift(qs, 4, out=q[:, 1])
    np.take(kvalues.astype(np.float32), q.reshape(n, 32), out=out, mode="clip")
    out *= d
    return out


def unscale(blocks: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """The scales 2^(e - 128), float32 [n, 1], and the blocks with the scale one."""
    at_one = blocks.copy()
    at_one[:, 0] = 128
    return np.ldexp(np.float32(1), blocks[:, 0:1].astype(np.int32) - 128), at_one
