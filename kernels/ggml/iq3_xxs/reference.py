"""IQ3_XXS: y = d * (0.5 + s) / 2 * grid row * signs, rows of four, for 32 weights a word of signs and scale."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8],
    out: NDArray[np.float32] | None = None,
    *,
    grid: NDArray[np.int8],
    ksigns: NDArray[np.uint8],
) -> NDArray[np.float32]:
    """[n, 98] uint8 to [n, 256] float32; grid int8 [256, 4], ksigns uint8 [128]."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, qs = blocks[:, 0:2].view("<f2"), blocks[:, 2:66]
    word = np.ascontiguousarray(blocks[:, 66:98]).view("<u4")
    values = np.take(grid, qs, axis=0, mode="clip").reshape(n, 256)
    signs = np.take(ksigns, word[:, :, None] >> np.arange(0, 28, 7, dtype=np.uint32) & 127, mode="clip")
    negative = np.unpackbits(signs.reshape(n, 32), axis=1, bitorder="little").view(np.int8)
    values *= 1 - 2 * negative
    out[:] = values
    scale = d.astype(np.float32) * ((word >> 28).astype(np.float32) + np.float32(0.5)) * np.float32(0.5)
    y = out.reshape(n, 8, 32)
    y *= scale[:, :, None]
    return out
