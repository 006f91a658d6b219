"""Products of a mixture of experts on the `cpu` backend: each row of activations with the experts that its ids choose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageProblem
from kernels.cpu_matmul import check_data, encode_activations, multiply_quantized, partner_of
from kernels.units import Unit, encoded_bytes, unit


def moe_matmul(
    encoding: str,
    x: NDArray[np.float32],
    data: NDArray[np.uint8],
    shape: tuple[int, int, int],
    ids: NDArray[np.int32],
) -> NDArray[np.float32]:
    """`out[t, s] = x[t, s] @ experts[ids[t, s]].T`: float32 [tokens, used, n].

    `x` float32 [tokens, used, k], or [tokens, 1, k] for activations that all chosen experts share; `data` uint8 [n_bytes]
    holds the experts, `shape` (experts, n, k); `ids` int32 [tokens, used] at any strides. Activations are encoded once,
    and each expert multiplies the rows that chose it. Raises UsageProblem that names the argument and what it should
    have been: among them an id of no expert.
    """
    partner_of(encoding)
    found = unit(encoding)
    experts, n, k = shape
    check_data("moe_matmul", found, data, shape)
    _check(found, x, ids, experts, k)
    tokens, used = ids.shape
    out = np.zeros((tokens, used, n), np.float32)
    if not out.size or not k:
        return out
    encoded = encode_activations(encoding, x.reshape(-1, k))
    size = encoded_bytes(found, (n, k))
    for expert in range(experts):
        token, slot = np.nonzero(ids == expert)
        if token.size:
            rows = np.ascontiguousarray(encoded[token * x.shape[1] + slot % x.shape[1]])
            weights = data[expert * size : (expert + 1) * size]
            out[token, slot] = multiply_quantized(encoding, rows, weights, (n, k))
    return out


def _check(found: Unit, x: NDArray[np.float32], ids: NDArray[np.int32], experts: int, k: int) -> None:
    if not isinstance(ids, np.ndarray) or ids.dtype != np.int32 or ids.ndim != 2:
        raise _refused(found, "ids", getattr(ids, "dtype", type(ids).__name__), "int32 [tokens, used]")
    outside = ids[(ids < 0) | (ids >= experts)]
    if outside.size:
        raise _refused(found, "ids", outside[0], f"0 to {experts - 1}")
    if not isinstance(x, np.ndarray) or x.dtype != np.float32:
        raise _refused(found, "x", getattr(x, "dtype", type(x).__name__), "a numpy array of float32")
    if x.shape not in ((*ids.shape, k), (ids.shape[0], 1, k)):
        raise _refused(found, "x", f"shape {x.shape}", f"{(*ids.shape, k)}, or 1 instead of {ids.shape[1]}")
    if not x.flags.c_contiguous:
        raise _refused(found, "x", f"strides {x.strides}", "contiguous memory")


def _refused(found: Unit, argument: str, got: object, wanted: str) -> UsageProblem:
    return UsageProblem(f"moe_matmul {found.encoding}: {argument}: got {got}, wanted {wanted}")
