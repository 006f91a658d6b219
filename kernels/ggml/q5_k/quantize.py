"""Q5_K: sub-blocks of 32 with codes 0 .. 31 searched for scale and minimum, both then stored in 6 bits."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_k import encode_4_or_5_bits
from kernels.common.numpy.quantize_steps import row_bytes


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes].

    The search puts 30.5 .. 32 (without weights, in tenths) or 30.1 .. 31.9 (with, in twentieths) on the sub-block's
    range.
    """
    header, codes = encode_4_or_5_bits(rows, weights, 31, -0.5, 15)
    pairs = codes.reshape(-1, 4, 2, 32)
    packed = pairs[:, :, 0] & 15 | pairs[:, :, 1] << 4
    high = np.packbits(codes.reshape(-1, 8, 32) >> 4, axis=1, bitorder="little")
    return row_bytes(
        np.concatenate([header, high.reshape(-1, 32), packed.reshape(-1, 128)], axis=1),
        rows,
    )
