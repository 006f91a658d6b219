"""Products of batches on the `cpu` backend: matrices of any strides, weights that several matrices of activations share.

Both operands have the same number of dimensions. Each size of the activations before the last two is a multiple of the
weights' own, and runs of that length share one matrix of weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageProblem
from kernels.common.numpy.blocks import CHUNK_WEIGHTS
from kernels.common.numpy.matmul import Offsets, Operand, multiply, multiply_values
from kernels.cpu_matmul import activation_operand, encode_activations, weight_operand
from kernels.cpu_views import View
from kernels.provider import dequantize

VALUES = frozenset({"ggml.f32", "ggml.f16"})
"""What activations may come in. Half precision is widened, which is exact, before it is encoded."""


def matmul(weights: View, x: View) -> NDArray[np.float32]:
    """`x` (..., m, k) of float32 or float16 times the transposed `weights` (..., n, k): float32 [..., m, n].

    As `kernels.cpu_matmul.matmul` for each matrix: activations are encoded as the weights' dot product wants them. Raises
    UsageProblem that names the argument and what it should have been.
    """
    _check_operands("matmul", weights, x, "wide", -1)
    *batch, m, k = x.shape
    n = weights.shape[-2]
    out = np.zeros((*batch, m, n), np.float32)
    if not out.size or not k:
        return out
    rows = encode_activations(weights.encoding, np.ascontiguousarray(x.values()).reshape(-1, k))
    own = out.reshape(-1, m, n)
    with np.errstate(all="ignore"):
        operand = activation_operand(weights.encoding, rows)
        for numbers, matrices in _runs(weights, x):
            if isinstance(operand, Operand):
                w = weight_operand(weights.encoding, matrices.reshape(-1, matrices.shape[-1]))
                for place, number in numbers:
                    multiply(_part(operand, number, m), _part(w, place, n), own[number])
            else:
                values = _decoded(weights.encoding, matrices, k)
                for place, number in numbers:
                    multiply_values(operand[number * m : number * m + m], values[place], own[number])
    return out


def out_prod(weights: View, x: View) -> NDArray[np.float32]:
    """The sum over r of `x[..., r, i] * w[..., r, j]`: float32 [..., n, m], of `x` (..., k, n) and `weights` (..., k, m).

    `x` is float32 or float16. Blocks run across the sum, so decoded weights are multiplied, as the engine does, a run of
    matrices at a time; summed in float64 and rounded once. Raises UsageProblem.
    """
    _check_operands("out_prod", weights, x, "long", -2)
    *batch, k, n = x.shape
    m = weights.shape[-1]
    out = np.zeros((*batch, n, m), np.float32)
    if not out.size or not k:
        return out
    columns = x.values().reshape(-1, k, n)
    own = out.reshape(-1, n, m)
    with np.errstate(all="ignore"):
        for numbers, matrices in _runs(weights, x):
            values = _decoded(weights.encoding, matrices, m)
            for place, number in numbers:
                multiply_values(columns[number].T, values[place].T, own[number])
    return out


def _runs(weights: View, x: View) -> Iterator[tuple[list[tuple[int, int]], NDArray[np.uint8]]]:
    """Runs of matrices of weights, uint8 [matrices, rows, row_bytes], with who multiplies them: (place in the run, number
    of the matrix of activations)."""
    shared = [whole // own for whole, own in zip(x.shape[:-2], weights.shape[:-2], strict=True)]
    users: dict[tuple[int, ...], list[int]] = {}
    for number, at in enumerate(np.ndindex(*x.shape[:-2])):
        owner = tuple(place // times for place, times in zip(at, shared, strict=True))
        users.setdefault(owner, []).append(number)
    rows = weights.rows()
    step = max(1, CHUNK_WEIGHTS // max(1, weights.shape[-1] * weights.shape[-2]))
    owners = iter(users)
    while run := list(itertools.islice(owners, step)):
        numbers = [(place, number) for place, owner in enumerate(run) for number in users[owner]]
        yield numbers, np.stack([rows[owner] for owner in run])


def _decoded(encoding: str, matrices: NDArray[np.uint8], cols: int) -> NDArray[np.float32]:
    """float32 [matrices, rows, cols]."""
    return dequantize(encoding, matrices.reshape(-1), (*matrices.shape[:2], cols))


def _part(operand: Operand, number: int, rows: int) -> Operand:
    """The rows of one matrix."""
    at = slice(number * rows, number * rows + rows)
    offsets = operand.offsets
    return Operand(
        operand.codes[at],
        operand.scales[at],
        None if offsets is None else Offsets(offsets.values[at], offsets.scales[at]),
    )


def _check_operands(op: str, weights: View, x: View, word: str, axis: int) -> None:
    if x.encoding not in VALUES:
        raise _refused(op, weights, "x", x.encoding, f"one of {', '.join(sorted(VALUES))}")
    if len(weights.shape) < 2 or len(x.shape) != len(weights.shape):
        raise _refused(op, weights, "x", f"shape {x.shape}", f"as many sizes as the weights' {weights.shape}")
    if x.shape[axis] != weights.shape[axis]:
        raise _refused(
            op, weights, "x", f"shape {x.shape}", f"{weights.shape[axis]}, as {word} as the weights"
        )
    pairs = zip(x.shape[:-2], weights.shape[:-2], strict=True)
    if any(not own or whole % own for whole, own in pairs):
        raise _refused(
            op, weights, "x", f"shape {x.shape}", f"multiples of {weights.shape[:-2]} before its last two"
        )


def _refused(op: str, weights: View, argument: str, got: object, wanted: str) -> UsageProblem:
    return UsageProblem(f"{op} {weights.encoding}: {argument}: got {got}, wanted {wanted}")
