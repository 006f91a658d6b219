"""MXFP4: the exponent of the largest magnitude, less 2, so that E2M1's largest power of two, 4, meets it."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_fp4 import nearest_code
from kernels.common.numpy.quantize_steps import f32, lanes, row_bytes, truncated


def encode(
    rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None, *, kvalues: NDArray[np.int8]
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes]; kvalues int8 [16]. Weights have no effect.

    e = floor(log2(amax)) + 125 with the logarithm rounded to float32 first: just below a power of two it is that power.
    e is 0 for a block of zeros, and the lower eight bits of the number where amax is below 2^-125.
    """
    x = lanes(rows, 32)
    amax = np.fmax.reduce(np.abs(x), axis=0)
    logarithm = np.log2(amax.astype(np.float64)).astype(np.float32)
    e = truncated(np.floor(logarithm) - f32(2) + f32(127)).astype(np.uint8)
    e[~(amax > 0)] = 0
    power = e.astype(np.uint32)
    # 2^(e - 128): e 0 and 1 are subnormal, with their bits in the fraction.
    d = np.where(power < 2, np.uint32(0x00200000) << power, (power - 1) << 23).astype(np.uint32)
    q = nearest_code(x, d.view(np.float32), kvalues)
    out = np.empty((x.shape[1], 17), np.uint8)
    out[:, 0] = e
    out[:, 1:17] = (q[:16] | q[16:] << 4).T
    return row_bytes(out, rows)
