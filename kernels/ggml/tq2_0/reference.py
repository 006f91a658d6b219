"""TQ2_0: y = d * (q - 1), four codes to a byte, 32 bytes for a half."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 66] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    qs, d = blocks[:, 0:64].reshape(n, 2, 32), blocks[:, 64:66].view("<f2")
    q = np.empty((n, 2, 4, 32), np.uint8)
    for run in range(4):
        np.right_shift(qs, 2 * run, out=q[:, :, run])
    q &= 3
    q -= 1
    out[:] = q.view(np.int8).reshape(n, 256)
    out *= d.astype(np.float32)
    return out
