"""Q5_K: Q4_K with a fifth bit, bit j of qh[l] for code l of sub-block j."""

import numpy as np
from numpy.typing import NDArray

NIBBLES, FIFTHS = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x1010101010101010)


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 176] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, dmin = blocks[:, 0:2].view("<f2"), blocks[:, 2:4].view("<f2")
    low, mid, high = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    sc = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    mn = np.concatenate([mid & 63, (high >> 4) | (mid >> 6) << 4], axis=1)
    # Eight codes to a word: what a shift carries into the neighbouring byte, the mask takes off.
    qh = np.ascontiguousarray(blocks[:, 16:48]).view("<u8")
    qs = np.ascontiguousarray(blocks[:, 48:176]).view("<u8").reshape(n, 4, 4)
    q = np.empty((n, 8, 4), "<u8")
    for j in range(8):
        fifth = qh << np.uint64(4 - j) if j < 4 else qh >> np.uint64(j - 4)
        nibble = qs[:, j // 2] >> np.uint64(4 * (j % 2))
        np.bitwise_or(nibble & NIBBLES, fifth & FIFTHS, out=q[:, j])
    y = out.reshape(n, 8, 32)
    y[:] = q.view(np.uint8)
    y *= (d.astype(np.float32) * sc)[:, :, None]
    y -= (dmin.astype(np.float32) * mn)[:, :, None]
    return out
