"""Q6_K: y = (d * sc) * (q - 32) in sub-blocks of 16, the low 4 and the high 2 bits of the codes stored apart."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 210] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    ql, qh = blocks[:, 0:128].reshape(n, 2, 2, 32), blocks[:, 128:192].reshape(n, 2, 32)
    sc, d = blocks[:, 192:208].view(np.int8), blocks[:, 208:210].view("<f2")
    q = np.empty((n, 2, 4, 32), np.uint8)
    for run, left in enumerate((4, 2, 0, -2)):
        high = qh << left if left >= 0 else qh >> -left
        np.bitwise_and(high, 48, out=q[:, :, run])
    q[:, :, :2] |= ql & 15
    q[:, :, 2:] |= ql >> 4
    q -= 32
    y = out.reshape(n, 16, 16)
    y[:] = q.view(np.int8).reshape(n, 16, 16)
    y *= (d.astype(np.float32) * sc)[:, :, None]
    return out
