"""Q4_0: y = d * (q - 8), the low nibbles of the 16 bytes before the high ones."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 18] uint8 to [n, 32] float32."""
    n = len(blocks)
    out = np.empty((n, 32), np.float32) if out is None else out
    d, qs = blocks[:, 0:2].view("<f2"), blocks[:, 2:18]
    q = np.empty((n, 2, 16), np.uint8)
    np.bitwise_and(qs, 15, out=q[:, 0])
    np.right_shift(qs, 4, out=q[:, 1])
    q -= 8
    out[:] = q.view(np.int8).reshape(n, 32)
    out *= d.astype(np.float32)
    return out
