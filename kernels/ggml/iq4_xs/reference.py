"""IQ4_XS: y = d * (sc - 32) * kvalues[q] in sub-blocks of 32, the scales' upper bits stored apart."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None, *, kvalues: NDArray[np.int8]
) -> NDArray[np.float32]:
    """[n, 136] uint8 to [n, 256] float32; kvalues int8 [16]."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, high, low = blocks[:, 0:2].view("<f2"), blocks[:, 2:4].view("<u2"), blocks[:, 4:8]
    qs = blocks[:, 8:136].reshape(n, 8, 16)
    sc = np.empty((n, 4, 2), np.int8)
    sc[:, :, 0] = low & 15
    sc[:, :, 1] = low >> 4
    sc = sc.reshape(n, 8) | ((high >> np.arange(0, 16, 2, dtype=np.uint16)) & 3).astype(np.int8) << 4
    q = np.empty((n, 8, 2, 16), np.uint8)
    np.bitwise_and(qs, 15, out=q[:, :, 0])
    np.right_shift(qs, 4, out=q[:, :, 1])
    np.take(kvalues.astype(np.float32), q.reshape(n, 256), out=out, mode="clip")
    y = out.reshape(n, 8, 32)
    y *= (d.astype(np.float32) * (sc - 32))[:, :, None]
    return out
