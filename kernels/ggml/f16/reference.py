"""F16: IEEE half precision, each value of which single precision holds exactly."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 2] uint8 to [n, 1] float32."""
    out = np.empty((len(blocks), 1), np.float32) if out is None else out
    out[:] = blocks.view("<f2")
    return out
