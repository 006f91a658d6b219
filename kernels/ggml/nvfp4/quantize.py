"""NVFP4: for 16 weights the unsigned E4M3 scale nearest to a sixth of the largest magnitude."""

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_fp4 import nearest_code
from kernels.common.numpy.quantize_steps import f32, lanes, row_bytes, truncated


def ue4m3(value: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Nearest unsigned E4M3, half up, but 0x7E (448) for all that rounds to 256 or more, and 0 for what is not above 0.

    The engine takes the top exponent for an overflow, so that of its bytes 0x78 .. 0x7E it writes the last one alone.
    """
    bits = np.minimum(value, f32(448)).view(np.int32)
    exponent, fraction = (bits >> 23 & 255) - 120, bits >> 20 & 7
    # A carry out of the fraction goes into the exponent, as in the format itself.
    normal = (exponent << 3) + fraction + (bits >> 19 & 1)
    normal[normal >= 0x78] = 0x7E
    subnormal = np.minimum(truncated(value * f32(512) + f32(0.5)), 7)
    return np.where(value > 0, np.where(exponent > 0, normal, subnormal), 0).astype(np.uint8)


def half_value(byte: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Half the value of bytes 0 .. 0x7E, to suit a table that holds twice the E2M1 values."""
    exponent, fraction = byte.astype(np.int32) >> 3, (byte & 7).astype(np.float32)
    return np.where(exponent == 0, np.ldexp(fraction, -10), np.ldexp(fraction + f32(8), exponent - 11))


def encode(
    rows: NDArray[np.float32], weights: NDArray[np.float32] | None = None, *, kvalues: NDArray[np.int8]
) -> NDArray[np.uint8]:
    """float32 [n_rows, n_cols] to uint8 [n_rows, row_bytes]; kvalues int8 [16]. Weights have no effect.

    d = ue4m3(amax / 6); the code is the nearest one. There is no second scale for the tensor.
    """
    x = lanes(rows, 16)
    d = ue4m3(np.fmax.reduce(np.abs(x), axis=0) / f32(6))
    q = nearest_code(x, half_value(d), kvalues)
    out = np.empty((x.shape[1] // 4, 36), np.uint8)
    out[:, 0:4] = d.reshape(-1, 4)
    out[:, 4:36] = (q[:8] | q[8:] << 4).T.reshape(-1, 32)
    return row_bytes(out, rows)
