"""IQ4_NL: y = d * kvalues[q], the low nibbles of the 16 bytes before the high ones."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None, *, kvalues: NDArray[np.int8]
) -> NDArray[np.float32]:
    """[n, 18] uint8 to [n, 32] float32; kvalues int8 [16]."""
    n = len(blocks)
    out = np.empty((n, 32), np.float32) if out is None else out
    d, qs = blocks[:, 0:2].view("<f2"), blocks[:, 2:18]
    q = np.empty((n, 2, 16), np.uint8)
    np.bitwise_and(qs, 15, out=q[:, 0])
    np.right_shift(qs, 4, out=q[:, 1])
    np.take(kvalues.astype(np.float32), q.reshape(n, 32), out=out, mode="clip")
    out *= d.astype(np.float32)
    return out
