"""IQ2_XXS: y = d * (0.5 + s) / 4 * grid row * signs, for 32 weights four row indices and a word of signs and scale."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8],
    out: NDArray[np.float32] | None = None,
    *,
    grid: NDArray[np.int8],
    ksigns: NDArray[np.uint8],
) -> NDArray[np.float32]:
    """[n, 66] uint8 to [n, 256] float32; grid int8 [256, 8], ksigns uint8 [128]."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, qs = blocks[:, 0:2].view("<f2"), np.ascontiguousarray(blocks[:, 2:66]).reshape(n, 8, 8)
    word = qs[:, :, 4:8].view("<u4")
    values = np.take(grid, qs[:, :, 0:4], axis=0, mode="clip").reshape(n, 256)
    signs = np.take(ksigns, word >> np.arange(0, 28, 7, dtype=np.uint32) & 127, mode="clip")
    negative = np.unpackbits(signs.reshape(n, 32), axis=1, bitorder="little").view(np.int8)
    values *= 1 - 2 * negative
    out[:] = values
    scale = (
        d.astype(np.float32) * ((word[:, :, 0] >> 28).astype(np.float32) + np.float32(0.5)) * np.float32(0.25)
    )
    y = out.reshape(n, 8, 32)
    y *= scale[:, :, None]
    return out
