"""IQ2_XS: y = d * (0.5 + s) / 4 * grid row * signs, row and sign index sharing a word, a scale for 16 weights."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8],
    out: NDArray[np.float32] | None = None,
    *,
    grid: NDArray[np.int8],
    ksigns: NDArray[np.uint8],
) -> NDArray[np.float32]:
    """[n, 74] uint8 to [n, 256] float32; grid int8 [512, 8], ksigns uint8 [128]."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, qs, nibbles = blocks[:, 0:2].view("<f2"), blocks[:, 2:66].view("<u2"), blocks[:, 66:74]
    values = np.take(grid, qs & 511, axis=0, mode="clip").reshape(n, 256)
    negative = np.unpackbits(np.take(ksigns, qs >> 9, mode="clip"), axis=1, bitorder="little").view(np.int8)
    values *= 1 - 2 * negative
    out[:] = values
    sc = np.stack([nibbles & 15, nibbles >> 4], axis=2).reshape(n, 16)
    scale = d.astype(np.float32) * (sc.astype(np.float32) + np.float32(0.5)) * np.float32(0.25)
    y = out.reshape(n, 16, 16)
    y *= scale[:, :, None]
    return out
