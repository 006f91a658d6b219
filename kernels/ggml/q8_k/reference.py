"""Q8_K: y = d * q with signed bytes and a single-precision d; the stored sums are for dot products."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 292] uint8 to [n, 256] float32."""
    out = np.empty((len(blocks), 256), np.float32) if out is None else out
    out[:] = blocks[:, 4:260].view(np.int8)
    out *= np.ascontiguousarray(blocks[:, 0:4]).view("<f4")
    return out
