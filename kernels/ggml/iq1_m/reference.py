"""IQ1_M: y = d * (2 s + 1) * (grid row + shift), a shift for each row, d itself in the upper nibbles of the scale words."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None, *, grid: NDArray[np.int8]
) -> NDArray[np.float32]:
    """[n, 56] uint8 to [n, 256] float32; grid int8 [2048, 8]."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    qs, qh, words = blocks[:, 0:32], blocks[:, 32:48], blocks[:, 48:56].view("<u2")
    d = np.bitwise_or.reduce(words >> 12 << np.arange(0, 16, 4, dtype=np.uint16), axis=1, keepdims=True).view(
        "<f2"
    )
    nibble = np.stack([qh & 15, qh >> 4], axis=2).reshape(n, 32)
    # Eight times grid + shift, an integer; the eighth goes to the scale, which loses nothing by it.
    values = np.take(grid, (nibble & 7).astype(np.uint16) << 8 | qs, axis=0, mode="clip")
    values *= 8
    values += (1 - 2 * (nibble >> 3).astype(np.int8))[:, :, None]
    out[:] = values.reshape(n, 256)
    sc = (words[:, :, None] >> np.arange(0, 12, 3, dtype=np.uint16) & 7).reshape(n, 16)
    scale = d.astype(np.float32) * (2 * sc + 1) * np.float32(0.125)
    y = out.reshape(n, 16, 16)
    y *= scale[:, :, None]
    return out


def unscale(blocks: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """The scales d, float32 [n, 1], and the blocks with the scale one."""
    at_one, position = blocks.copy(), np.arange(0, 16, 4, dtype=np.uint16)
    words = at_one[:, 48:56].view("<u2")
    d = np.bitwise_or.reduce(words >> 12 << position, axis=1, keepdims=True).view("<f2")
    words[:] = words & 0x0FFF | np.uint16(0x3C00) >> position << 12
    return d.astype(np.float32), at_one
