"""Q8_0: the largest magnitude gets code 127. Weights and activations differ in the reciprocal and in the rounding."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_activations import activation_codes
from kernels.common.numpy.quantize_steps import (
    f32,
    half_bytes,
    lanes,
    largest_after_nan,
    reciprocal,
    round_half_away,
    row_bytes,
    to_half,
    truncated,
)


def encode(rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes]. Weights have no effect.

    d = amax / 127 and q = round(x * (1 / d)), half away from zero.
    """
    x = lanes(rows, 32)
    d = largest_after_nan(x) / f32(127)
    q = truncated(round_half_away(x * reciprocal(d))).astype(np.int8)
    out = np.empty((x.shape[1], 34), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:34] = q.T.view(np.uint8)
    return row_bytes(out, rows)


def encode_activation(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The same layout as the engine's AVX2 code makes it: q = round(x * (127 / amax)), half to even."""
    x = lanes(rows, 32)
    d, q, _ = activation_codes(x)
    out = np.empty((x.shape[1], 34), np.uint8)
    out[:, 0:2] = half_bytes(to_half(d))
    out[:, 2:34] = q.T.view(np.uint8)
    return row_bytes(out, rows)
