"""Q5_1: y = d * q + m, bit 4 of code i being bit i of qh."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 24] uint8 to [n, 32] float32."""
    n = len(blocks)
    out = np.empty((n, 32), np.float32) if out is None else out
    d, m, qh, qs = blocks[:, 0:2].view("<f2"), blocks[:, 2:4].view("<f2"), blocks[:, 4:8], blocks[:, 8:24]
    q = np.unpackbits(qh, axis=1, bitorder="little")
    q <<= 4
    q[:, :16] |= qs & 15
    q[:, 16:] |= qs >> 4
    out[:] = q
    out *= d.astype(np.float32)
    out += m.astype(np.float32)
    return out
