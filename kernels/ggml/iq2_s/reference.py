"""IQ2_S: y = d * (0.5 + s) / 4 * grid row * signs, a sign bit a weight, a scale for 16 weights."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None, *, grid: NDArray[np.int8]
) -> NDArray[np.float32]:
    """[n, 82] uint8 to [n, 256] float32; grid int8 [1024, 8]."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, qs, signs = blocks[:, 0:2].view("<f2"), blocks[:, 2:34].reshape(n, 8, 4), blocks[:, 34:66]
    qh, nibbles = blocks[:, 66:74, None], blocks[:, 74:82]
    row = (qh >> np.arange(0, 8, 2, dtype=np.uint8) & 3).astype(np.uint16) << 8 | qs
    values = np.take(grid, row, axis=0, mode="clip").reshape(n, 256)
    negative = np.unpackbits(signs, axis=1, bitorder="little").view(np.int8)
    values *= 1 - 2 * negative
    out[:] = values
    sc = np.stack([nibbles & 15, nibbles >> 4], axis=2).reshape(n, 16)
    scale = d.astype(np.float32) * (sc.astype(np.float32) + np.float32(0.5)) * np.float32(0.25)
    y = out.reshape(n, 16, 16)
    y *= scale[:, :, None]
    return out
