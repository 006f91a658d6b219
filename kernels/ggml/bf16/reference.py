"""BF16: the sixteen upper bits of a single-precision value; the lower ones are zero."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 2] uint8 to [n, 1] float32; NaNs keep their bits."""
    out = np.empty((len(blocks), 1), np.float32) if out is None else out
    bits = out.view(np.uint32)
    bits[:] = blocks.view("<u2")
    bits <<= 16
    return out
