"""Q1_0: y = d where the bit is set, -d where it is not."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 18] uint8 to [n, 128] float32."""
    n = len(blocks)
    out = np.empty((n, 128), np.float32) if out is None else out
    d, qs = blocks[:, 0:2].view("<f2"), blocks[:, 2:18]
    q = np.unpackbits(qs, axis=1, bitorder="little")
    q += q
    q -= 1
    out[:] = q.view(np.int8)
    out *= d.astype(np.float32)
    return out
