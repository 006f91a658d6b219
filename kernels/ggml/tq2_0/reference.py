"""TQ2_0: y = d * (q - 1), four codes to a byte, 32 bytes for a half."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 66] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    qs, d = blocks[:, 0:64].copy().reshape(n, 2, 32), blocks[:, 64:66].view("<f2")
    runs = out.reshape(n, 2, 4, 32)
    for run in range(4):
        q = qs >> 2 * run & 3
        q -= 1
        runs[:, :, run] = q.view(np.int8)
    out *= d.astype(np.float32)
    return out
