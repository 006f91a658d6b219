"""Nearest E2M1 code for a given scale, as MXFP4 and NVFP4 share it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import Bytes, Floats, f32


def nearest_code(x: Floats, d: Floats, kvalues: NDArray[np.int8]) -> Bytes:
    """Code [k, n] for which |kvalues[code] * d - x| is least, x [k, n] and d [n]; of equal ones the smaller magnitude.

    Only magnitudes are searched: the sign bit of the code is that of x, and a zero is code 0 whatever its sign.
    """
    magnitude = np.abs(x)
    best, code = magnitude.copy(), np.zeros(x.shape, np.uint8)
    gap = np.empty_like(magnitude)
    for index in range(1, 8):
        np.subtract(f32(kvalues[index]) * d, magnitude, out=gap)
        np.abs(gap, out=gap)
        closer = gap < best
        np.copyto(best, gap, where=closer)
        code += closer * (np.uint8(index) - code)
    code |= ((x < 0) & (code > 0)).view(np.uint8) << np.uint8(3)
    return code
