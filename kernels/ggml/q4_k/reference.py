"""Q4_K: y = (d * sc) * q - dmin * mn in sub-blocks of 32, whose 6-bit scales and minima share twelve bytes."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 144] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, dmin = blocks[:, 0:2].view("<f2"), blocks[:, 2:4].view("<f2")
    low, mid, high = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    sc = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    mn = np.concatenate([mid & 63, (high >> 4) | (mid >> 6) << 4], axis=1)
    qs = blocks[:, 16:144].reshape(n, 4, 32)
    q = np.empty((n, 4, 2, 32), np.uint8)
    np.bitwise_and(qs, 15, out=q[:, :, 0])
    np.right_shift(qs, 4, out=q[:, :, 1])
    y = out.reshape(n, 8, 32)
    y[:] = q.reshape(n, 8, 32)
    y *= (d.astype(np.float32) * sc)[:, :, None]
    y -= (dmin.astype(np.float32) * mn)[:, :, None]
    return out
