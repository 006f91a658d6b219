"""F32: the values as they are stored, whatever their alignment."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 4] uint8 to [n, 1] float32; NaNs keep their bits."""
    out = np.empty((len(blocks), 1), np.float32) if out is None else out
    out.view(np.uint8)[:] = blocks
    return out
