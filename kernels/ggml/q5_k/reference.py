"""Q5_K: Q4_K with a fifth bit, bit j of qh[l] for code l of sub-block j."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 176] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, dmin = blocks[:, 0:2].view("<f2"), blocks[:, 2:4].view("<f2")
    low, mid, high = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    sc = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    mn = np.concatenate([mid & 63, (high >> 4) | (mid >> 6) << 4], axis=1)
    qh, qs = blocks[:, 16:48], blocks[:, 48:176].reshape(n, 4, 32)
    q = np.empty((n, 8, 32), np.uint8)
    for j in range(8):
        np.right_shift(qh, j, out=q[:, j])
    q &= 1
    q <<= 4
    q[:, 0::2] |= qs & 15
    q[:, 1::2] |= qs >> 4
    y = out.reshape(n, 8, 32)
    y[:] = q
    y *= (d.astype(np.float32) * sc)[:, :, None]
    y -= (dmin.astype(np.float32) * mn)[:, :, None]
    return out
