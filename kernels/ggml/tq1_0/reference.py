"""TQ1_0: y = d * (t - 1), five ternary digits to a byte, the first one the most significant."""

import numpy as np
from numpy.typing import NDArray


def decode(blocks: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """[n, 54] uint8 to [n, 256] float32."""
    n = len(blocks)
    out = np.empty((n, 256), np.float32) if out is None else out
    d = blocks[:, 52:54].view("<f2")
    t = np.empty((n, 256), np.uint8)
    start = 0
    for first, last, digits in ((0, 32, 5), (32, 48, 5), (48, 52, 4)):
        for digit in range(digits):
            stop = start + last - first
            np.multiply(blocks[:, first:last], np.uint8(3**digit), out=t[:, start:stop])
            start = stop
    # (t * 3) >> 8 is the number of thirds of 256 that lie below t; less one.
    y = (t > 85).view(np.int8) + (t > 170).view(np.int8)
    y -= 1
    out[:] = y
    out *= d.astype(np.float32)
    return out
