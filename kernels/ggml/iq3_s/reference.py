"""IQ3_S: y = d * (1 + 2 s) * grid row * signs, rows of four, a sign bit a weight, a scale for 32 weights."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None, *, grid: NDArray[np.int8]
) -> NDArray[np.float32]:
    """[n, 110] uint8 to [n, 256] float32; grid int8 [512, 4]."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, qs, qh = blocks[:, 0:2].view("<f2"), blocks[:, 2:66], blocks[:, 66:74]
    signs, nibbles = blocks[:, 74:106], blocks[:, 106:110]
    row = np.unpackbits(qh, axis=1, bitorder="little").astype(np.uint16) << 8 | qs
    values = np.take(grid, row, axis=0, mode="clip").reshape(n, 256)
    negative = np.unpackbits(signs, axis=1, bitorder="little").view(np.int8)
    values *= 1 - 2 * negative
    out[:] = values
    sc = np.stack([nibbles & 15, nibbles >> 4], axis=2).reshape(n, 8)
    scale = d.astype(np.float32) * (2 * sc + 1)
    y = out.reshape(n, 8, 32)
    y *= scale[:, :, None]
    return out
