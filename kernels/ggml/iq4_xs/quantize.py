"""IQ4_XS: IQ4_NL's search in each sub-block of 32, its scale stored in 6 signed bits."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_nonlinear import NearestValue, search
from kernels.common.numpy.quantize_steps import (
    clipped_int,
    f32,
    half_bytes,
    importance,
    lanes,
    largest_magnitude,
    reciprocal,
    row_bytes,
    square_sum,
    to_half,
)


def encode(
    rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None, *, kvalues: NDArray[np.int8]
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes]; kvalues int8 [16].

    The search runs under x^2, with weights under weight * sqrt(2 * mean square of the super-block + x^2). d gives the
    scale of largest magnitude the code -32; the codes are those for the float32 d, before it is rounded to be stored.
    """
    x = lanes(rows, 32)
    nearest = NearestValue(kvalues)
    if weights is None:
        w = x * x
    else:
        blocks = rows.reshape(-1, 256)
        w = importance(blocks, weights.reshape(-1, 256), 32, square_sum(blocks) * f32(2 / 256))
    scales = lanes(search(x, w, nearest, int(kvalues[0])), 8)
    d = -largest_magnitude(scales)[1] / f32(32)
    sc = clipped_int(reciprocal(d) * scales, -32, 31)
    sub_scale = (d * sc.astype(np.float32)).T.reshape(-1)
    q = nearest.code(reciprocal(sub_scale) * x)
    six_bits = (sc + 32).astype(np.uint8).T
    high = (six_bits >> 4).astype(np.uint16) << np.arange(0, 16, 2, dtype=np.uint16)
    out = np.empty((len(six_bits), 136), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:4] = np.bitwise_or.reduce(high, axis=1, keepdims=True).astype("<u2").view(np.uint8)
    out[:, 4:8] = six_bits[:, 0::2] & 15 | six_bits[:, 1::2] << 4
    out[:, 8:136] = (q[:16] | q[16:] << 4).T.reshape(-1, 128)
    return row_bytes(out, rows)
