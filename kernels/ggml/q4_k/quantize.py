"""Q4_K: sub-blocks of 32 with codes 0 .. 15 searched for scale and minimum, both then stored in 6 bits."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_k import encode_4_or_5_bits
from kernels.common.numpy.quantize_steps import row_bytes


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] and weights [n_cols] to uint8 [n_rows, row_bytes].

    The search puts 14 .. 16 (without weights, in tenths) or 14.1 .. 15.9 (with, in twentieths) on the sub-block's range.
    """
    header, codes = encode_4_or_5_bits(rows, weights, 15, -1, 20, limited=weights is None)
    pairs = codes.reshape(-1, 4, 2, 32)
    packed = pairs[:, :, 0] | pairs[:, :, 1] << 4
    return row_bytes(np.concatenate([header, packed.reshape(-1, 128)], axis=1), rows)
