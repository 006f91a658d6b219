"""Q4_1: y = d * q + m, the low nibbles of the 16 bytes before the high ones."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 20] uint8 to [n, 32] float32."""
    n = len(blocks)
    out = np.empty((n, 32), np.float32) if out is None else out
    d, m, qs = blocks[:, 0:2].view("<f2"), blocks[:, 2:4].view("<f2"), blocks[:, 4:20]
    q = np.empty((n, 2, 16), np.uint8)
    np.bitwise_and(qs, 15, out=q[:, 0])
    np.right_shift(qs, 4, out=q[:, 1])
    out[:] = q.reshape(n, 32)
    out *= d.astype(np.float32)
    out += m.astype(np.float32)
    return out
