"""F16: to the nearest half-precision value, half to even; beyond 65519.99 to infinity."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import to_half


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, 2 n_cols]; a NaN keeps its sign alone. Weights have no effect."""
    return to_half(rows).view(np.uint8)


def encode_activation(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The same, save that a NaN keeps the upper bits of its fraction and becomes quiet, as the CPU's conversion does."""
    bits = rows.astype("<f2").view(np.uint16)
    upper = (np.ascontiguousarray(rows).view(np.uint32) >> 13).astype(np.uint16) & 0x1FF
    np.copyto(bits, bits & 0x8000 | 0x7E00 | upper, where=np.isnan(rows))
    return bits.view(np.uint8)
