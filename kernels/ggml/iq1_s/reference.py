"""IQ1_S: y = d * (2 s + 1) * (grid row + shift), the shift an eighth up or down, for 32 weights one word of high bits."""

import numpy as np
from numpy.typing import NDArray


def decode(
    blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None, *, grid: NDArray[np.int8]
) -> NDArray[np.float32]:
    """[n, 50] uint8 to [n, 256] float32; grid int8 [2048, 8]."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d, qs, qh = blocks[:, 0:2].view("<f2"), blocks[:, 2:34].reshape(n, 8, 4), blocks[:, 34:50].view("<u2")
    row = (qh[:, :, None] >> np.arange(0, 12, 3, dtype=np.uint16) & 7) << 8 | qs
    # Eight times grid + shift, an integer; the eighth goes to the scale, which loses nothing by it.
    values = np.take(grid, row, axis=0, mode="clip").reshape(n, 8, 32)
    values *= 8
    values += (1 - 2 * (qh >> 15).astype(np.int8))[:, :, None]
    out[:] = values.reshape(n, 256)
    scale = d.astype(np.float32) * (2 * (qh >> 12 & 7) + 1) * np.float32(0.125)
    y = out.reshape(n, 8, 32)
    y *= scale[:, :, None]
    return out
