"""Q3_K: y = d * (sc - 32) * (q - 4) in sub-blocks of 16, the codes' third bit and the scales' upper bits stored apart."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 110] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    low, pairs, d = blocks[:, 96:104], blocks[:, 104:108], blocks[:, 108:110].view("<f2")
    sc = np.concatenate([low & 15, low >> 4], axis=1).reshape(n, 4, 4)
    for quarter in range(4):
        sc[:, quarter] |= (pairs >> 2 * quarter & 3) << 4
    sc -= 32
    hmask, qs = blocks[:, 0:32], blocks[:, 32:96].copy().reshape(n, 2, 32)
    third = np.stack([hmask & 15, hmask >> 4], axis=1) << 2
    runs = out.reshape(n, 2, 4, 32)
    for run in range(4):
        q = (qs >> 2 * run & 3) | (third >> run & 4)
        q -= 4
        runs[:, :, run] = q.view(np.int8)
    y = out.reshape(n, 16, 16)
    y *= (d.astype(np.float32) * sc.view(np.int8).reshape(n, 16))[:, :, None]
    return out
