"""Q2_K: y = (d * sc) * q - dmin * mn in sub-blocks of 16, scale and minimum being nibbles of one byte."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 84] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    scales, qs = blocks[:, 0:16], blocks[:, 16:80].copy().reshape(n, 2, 32)
    d, dmin = blocks[:, 80:82].view("<f2"), blocks[:, 82:84].view("<f2")
    runs = out.reshape(n, 2, 4, 32)
    for run in range(4):
        runs[:, :, run] = qs >> 2 * run & 3
    y = out.reshape(n, 16, 16)
    y *= (d.astype(np.float32) * (scales & 15))[:, :, None]
    y -= (dmin.astype(np.float32) * (scales >> 4))[:, :, None]
    return out
