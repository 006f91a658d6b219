"""Q6_K: sub-blocks of 16 with codes -32 .. 31 searched for a scale, stored in a signed byte."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_k import in_order, per_super_block, symmetric_codes
from kernels.common.numpy.quantize_steps import (
    f32,
    from_half,
    half_bytes,
    lanes,
    largest_magnitude,
    nearest_int,
    row_bytes,
    to_half,
)
from kernels.common.numpy.quantize_symmetric import ALL_ZERO, search


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes].

    Each sub-block is searched under x^2, with weights under these alone; d gives the scale of largest magnitude the
    code -128. A super-block whose scales are all below 1e-15 is stored as zero bytes.
    """
    x = lanes(rows, 16)
    w = None if weights is None else np.tile(lanes(weights, 16), len(rows))
    scale, searched = search(x, 32, w)
    scales = per_super_block(scale, 16)
    size, top = largest_magnitude(scales)
    inverse = f32(-128) / top
    half = to_half(f32(1) / inverse)
    sc = np.minimum(nearest_int(inverse * scales), 127).astype(np.int8)
    codes = in_order(symmetric_codes(x, (from_half(half) * sc).T.reshape(-1), 32, searched))
    runs = codes.reshape(-1, 2, 4, 32)
    high = runs >> 4
    out = np.empty((len(codes), 210), np.uint8)
    out[:, 0:128] = (runs[:, :, :2] & 15 | runs[:, :, 2:] << 4).reshape(-1, 128)
    out[:, 128:192] = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).reshape(
        -1, 64
    )
    out[:, 192:208] = sc.T.view(np.uint8)
    out[:, 208:210] = half_bytes(half)
    out[size < ALL_ZERO] = 0
    return row_bytes(out, rows)
