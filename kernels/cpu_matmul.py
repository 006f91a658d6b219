"""Our matmul on the `cpu` backend: computed from quantized operands, as the engine's dot products compute it.

The activations are quantized to the encoding that the unit of the weights names as `activation`; integer products are
summed exactly and scaled in single precision (`kernels.common.numpy.matmul`). Nowhere are weights expanded to floats.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageProblem
from kernels.common.numpy.blocks import CHUNK_WEIGHTS
from kernels.common.numpy.matmul import Operand, multiply, multiply_values
from kernels.common.numpy.matmul_operands import Codec, activations, summed_parts, weights
from kernels.provider import dequantize, reference
from kernels.quantizer import quantize, quantize_activation
from kernels.tables import tables_of
from kernels.units import Unit, encoded_bytes, load_units, unit


def matmul(
    encoding: str, x: NDArray[np.float32], data: NDArray[np.uint8], shape: Sequence[int]
) -> NDArray[np.float32]:
    """`x` float32 [m, k] times the transposed weights `data` uint8 [n_bytes], `shape` (n, k): float32 [m, n].

    Raises UsageProblem that names the argument and what it should have been: an encoding that is unknown or is no
    operand of a dot product, another dtype, a width that differs from `k`, a `k` that is no multiple of the block, data
    of another byte count, operands that are not contiguous (nothing is ever copied to make them so).
    """
    found = _with_dot_product(encoding)
    _, k = _shape_of_weights(found, shape)
    _check_x(found, x, k)
    return multiply_quantized(encoding, encode_activations(encoding, x), data, shape)


def encode_activations(encoding: str, x: NDArray[np.float32]) -> NDArray[np.uint8]:
    """`x` float32 [m, k] as the other operand of weights of `encoding`: uint8 [m, row_bytes]."""
    partner = partner_of(encoding)
    encode = quantize if _holds_values(partner) else quantize_activation
    return encode(partner.encoding, x).reshape(len(x), encoded_bytes(partner, x.shape[1:]))


def multiply_quantized(
    encoding: str, activation_rows: NDArray[np.uint8], data: NDArray[np.uint8], shape: Sequence[int]
) -> NDArray[np.float32]:
    """As `matmul`, of activations that are encoded already: uint8 [m, row_bytes]. Raises UsageProblem likewise."""
    found = _with_dot_product(encoding)
    n, k = _shape_of_weights(found, shape)
    check_data("matmul", found, data, (n, k))
    _check_activation_rows(found, activation_rows, k)
    out = np.zeros((len(activation_rows), n), np.float32)
    if not out.size or not k:
        return out
    rows = data.reshape(n, -1)
    step = max(1, CHUNK_WEIGHTS // k)
    with np.errstate(all="ignore"):
        x = activation_operand(encoding, activation_rows)
        for start in range(0, n, step):
            run = slice(start, start + step)
            if isinstance(x, Operand):
                multiply(x, weight_operand(encoding, rows[run]), out[:, run])
            else:
                multiply_values(x, _values(found, rows[run]), out[:, run])
    return out


def activation_operand(encoding: str, rows: NDArray[np.uint8]) -> Operand | NDArray[np.float32]:
    """Activations uint8 [m, row_bytes] for weights of `encoding`, taken apart; where these hold values: the values."""
    partner = partner_of(encoding)
    if _holds_values(partner):
        return _values(partner, rows)
    return activations(codec(partner.encoding), rows.reshape(-1, partner.block_bytes), len(rows))


def weight_operand(encoding: str, rows: NDArray[np.uint8]) -> Operand:
    """Weights uint8 [n, row_bytes], taken apart."""
    found = unit(encoding)
    blocks = rows.reshape(-1, found.block_bytes)
    return weights(codec(encoding), blocks, len(rows), summed_parts(partner_of(encoding)))


@cache
def codec(encoding: str) -> Codec:
    found = unit(encoding)
    module = reference(found)
    return Codec(found, partial(module.decode, **tables_of(found)), getattr(module, "unscale", None))


def partner_of(encoding: str) -> Unit:
    """The unit that activations are encoded in for weights of `encoding`. Raises UsageProblem when there is none."""
    found = unit(encoding)
    if found.activation is None:
        raise UsageProblem(
            f"matmul {encoding}: it is an encoding of activations, no dot product takes it as weights"
        )
    return unit(found.activation)


def offered() -> tuple[str, ...]:
    """The encodings that `matmul` takes."""
    return tuple(found.encoding for found in load_units().values() if found.activation is not None)


def check_data(op: str, found: Unit, data: NDArray[np.uint8], shape: tuple[int, ...]) -> None:
    """Raises UsageProblem when `data` is not the contiguous uint8 [n_bytes] of weights of `shape`."""
    wanted = encoded_bytes(found, shape)
    if not isinstance(data, np.ndarray):
        raise refused(op, found, "data", type(data).__name__, "a numpy array")
    if data.dtype != np.uint8:
        raise refused(op, found, "data", data.dtype, "uint8")
    if data.shape != (wanted,):
        raise refused(op, found, "data", f"shape {data.shape}", f"({wanted},) for weights of shape {shape}")
    if not data.flags.c_contiguous:
        raise refused(op, found, "data", f"stride {data.strides[0]}", "contiguous bytes")


def refused(op: str, found: Unit, argument: str, got: object, wanted: str) -> UsageProblem:
    return UsageProblem(f"{op} {found.encoding}: {argument}: got {got}, wanted {wanted}")


def _with_dot_product(encoding: str) -> Unit:
    partner_of(encoding)
    return unit(encoding)


def _shape_of_weights(found: Unit, shape: Sequence[int]) -> tuple[int, int]:
    sizes = tuple(operator.index(size) for size in shape)
    if len(sizes) != 2:
        raise refused("matmul", found, "shape", sizes, "two sizes, (n, k)")
    encoded_bytes(found, sizes)
    return sizes[0], sizes[1]


def _check_x(found: Unit, x: NDArray[np.float32], k: int) -> None:
    if not isinstance(x, np.ndarray):
        raise refused("matmul", found, "x", type(x).__name__, "a numpy array")
    if x.dtype != np.float32:
        raise refused("matmul", found, "x", x.dtype, "float32")
    if x.ndim != 2 or x.shape[1] != k:
        raise refused("matmul", found, "x", f"shape {x.shape}", f"(m, {k}), as wide as the weights")
    if not x.flags.c_contiguous:
        raise refused("matmul", found, "x", f"strides {x.strides}", "contiguous memory")


def _check_activation_rows(found: Unit, rows: NDArray[np.uint8], k: int) -> None:
    partner = partner_of(found.encoding)
    wanted = encoded_bytes(partner, (k,))
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8:
        got = rows.dtype if isinstance(rows, np.ndarray) else type(rows).__name__
        raise refused("matmul", found, "activations", got, "a numpy array of uint8")
    if rows.ndim != 2 or rows.shape[1] != wanted:
        raise refused(
            "matmul", found, "activations", f"shape {rows.shape}", f"(m, {wanted}), {k} x {partner.encoding}"
        )
    if not rows.flags.c_contiguous:
        raise refused("matmul", found, "activations", f"strides {rows.strides}", "contiguous bytes")


def _holds_values(found: Unit) -> bool:
    return any(field.role == "value" for field in found.fields)


def _values(found: Unit, rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    return dequantize(found.encoding, rows.reshape(-1), (len(rows), rows.shape[1] // found.block_bytes))
