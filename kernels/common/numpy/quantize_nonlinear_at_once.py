"""IQ4_NL as the engine's ops write it: without the search of its quantizer, one scale from the largest magnitude."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_nonlinear import NearestValue
from kernels.common.numpy.quantize_steps import (
    f32,
    half_bytes,
    lanes,
    largest_magnitude,
    ordered_sum,
    to_half,
)
from kernels.common.numpy.quantize_symmetric import ALL_ZERO


def encode_at_once(rows: NDArray[np.float32], *, kvalues: NDArray[np.int8]) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes]; kvalues int8 [16].

    The value of largest magnitude is put at the least of the sixteen values, which fixes the codes; the scale is then the
    one with the least squared error under x^2. The codes of a block of (nearly) nothing are whatever stood there before in
    the engine, and those of zero here: its scale is zero.
    """
    x = lanes(rows, 32)
    nearest = NearestValue(kvalues)
    size, top = largest_magnitude(x)
    with np.errstate(all="ignore"):
        inverse = f32(1) / (top / f32(kvalues[0]))
        inverse[size < ALL_ZERO] = 0
        scaled = inverse * x
        value = nearest.value(scaled)
        term = x * x * value
        squares = ordered_sum(term * value)
        term *= x
        scale = np.divide(ordered_sum(term), squares, out=np.zeros_like(squares), where=squares > 0)
    q = nearest.code(scaled)
    scale[size < ALL_ZERO] = 0
    out = np.empty((x.shape[1], 18), np.uint8)
    out[:, 0:2] = half_bytes(to_half(scale))
    out[:, 2:18] = (q[:16] | q[16:] << 4).T
    return out.reshape(len(rows), rows.shape[1] // 32 * 18)
