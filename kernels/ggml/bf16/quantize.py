"""BF16: to the nearest of the values whose lower sixteen bits are zero, half to even."""

import numpy as np
from numpy.typing import NDArray


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, 2 n_cols]; a NaN keeps its upper bits and becomes quiet.

    Adding 0x7FFF, and 1 where the last kept bit is set, carries into the kept bits exactly when rounding up is right.
    Weights have no effect.
    """
    bits = np.ascontiguousarray(rows).view(np.uint32)
    kept = bits >> 16
    rounded = (bits + (kept & 1) + np.uint32(0x7FFF)) >> 16
    return np.where(np.isnan(rows), kept | 64, rounded).astype("<u2").view(np.uint8)


def encode_activation(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The same."""
    return encode(rows)
