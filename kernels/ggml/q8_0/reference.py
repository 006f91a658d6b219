"""Q8_0: y = d * q with signed bytes."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 34] uint8 to [n, 32] float32."""
    out = np.empty((len(blocks), 32), np.float32) if out is None else out
    out[:] = blocks[:, 2:34].view(np.int8)
    out *= blocks[:, 0:2].view("<f2").astype(np.float32)
    return out
