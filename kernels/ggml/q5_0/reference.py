"""Q5_0: y = d * (q - 16), bit 4 of code i being bit i of qh."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 22] uint8 to [n, 32] float32."""
    n = len(blocks)
    out = np.empty((n, 32), np.float32) if out is None else out
    d, qh, qs = blocks[:, 0:2].view("<f2"), blocks[:, 2:6], blocks[:, 6:22]
    q = np.unpackbits(qh, axis=1, bitorder="little")
    q <<= 4
    q[:, :16] |= qs & 15
    q[:, 16:] |= qs >> 4
    q -= 16
    out[:] = q.view(np.int8)
    out *= d.astype(np.float32)
    return out
