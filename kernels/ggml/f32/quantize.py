"""F32: the values as they are."""

import numpy as np
from numpy.typing import NDArray


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, 4 n_cols]; NaNs keep their bits. Weights have no effect."""
    return np.ascontiguousarray(rows, "<f4").view(np.uint8)


def encode_activation(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The same."""
    return encode(rows)
