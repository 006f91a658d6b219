"""Q2_0: y = d * (q - 1), four consecutive codes to a byte."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 18] uint8 to [n, 64] float32."""
    n = len(blocks)
    out = np.empty((n, 64), np.float32) if out is None else out
    d, qs = blocks[:, 0:2].view("<f2"), blocks[:, 2:18]
    q = np.empty((n, 16, 4), np.uint8)
    for lane in range(4):
        np.right_shift(qs, 2 * lane, out=q[:, :, lane])
    q &= 3
    q -= 1
    out[:] = q.view(np.int8).reshape(n, 64)
    out *= d.astype(np.float32)
    return out
