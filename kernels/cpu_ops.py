"""Our ops on the `cpu` backend that move encoded rows about: get_rows and its gradient, set_rows, cpy, and out_prod.

They decode and encode with the units' own `reference.py` and `quantize.py`. An encoding that something has to be written
to needs a quantizer; one without is refused by name, and so is one that needs an importance matrix where none is given.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels import quantizer
from kernels.common.numpy.blocks import CHUNK_WEIGHTS
from kernels.common.numpy.quantize_nonlinear_at_once import encode_at_once
from kernels.cpu_matmul import check_data, refused
from kernels.cpu_views import INTEGERS, View
from kernels.provider import dequantize
from kernels.tables import tables_of
from kernels.units import Unit, encoded_bytes, load_units, unit


def get_rows(
    encoding: str, data: NDArray[np.uint8], shape: Sequence[int], indices: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Rows `indices` [..., r] of the matrices `data` uint8 [n_bytes], `shape` (..., rows, cols): float32 [..., r, cols].

    `indices` has as many dimensions before the last one as `shape` before its last two, of the same sizes. Raises
    UsageProblem that names the argument and what it should have been: among them an index below 0 or not below `rows`.
    """
    found = unit(encoding)
    sizes = _sizes("get_rows", found, shape)
    check_data("get_rows", found, data, sizes)
    *batch, rows, cols = sizes
    _check_indices("get_rows", found, indices, rows)
    if indices.shape[:-1] != tuple(batch):
        raise refused(
            "get_rows",
            found,
            "indices",
            f"shape {indices.shape}",
            f"{(*batch, 'r')} for weights of shape {sizes}",
        )
    chosen = _encoded_rows(found, data, sizes)[
        _matrix_numbers(batch), indices.reshape(math.prod(batch), indices.shape[-1])
    ]
    return dequantize(encoding, chosen.reshape(-1), (*indices.shape, cols))


def get_rows_back(gradient: View, indices: NDArray[np.integer], rows: int) -> NDArray[np.float32]:
    """What `get_rows` hands back to its matrix: float32 [rows, cols], at each row the sum of the gradient's rows for it.

    `gradient` (r, cols) in any encoding, `indices` [at most r]: rows of the gradient beyond them play no part. Added one
    by one in single precision, in their order, as the engine does; rows that nobody took are zero. Raises UsageProblem.
    """
    if len(gradient.shape) != 2:
        raise gradient.refused("shape", gradient.shape, "two sizes, (r, cols)")
    if indices.ndim != 1 or len(indices) > gradient.shape[0]:
        raise gradient.refused(
            "indices", f"shape {indices.shape}", f"one size of at most {gradient.shape[0]}"
        )
    outside = indices[(indices < 0) | (indices >= rows)]
    if outside.size:
        raise gradient.refused("indices", outside[0], f"0 to {rows - 1}")
    total = np.zeros((rows, gradient.shape[1]), np.float32)
    for row, values in zip(indices, gradient.values(), strict=False):
        total[row] += values
    return total


def set_rows(
    encoding: str,
    data: NDArray[np.uint8],
    shape: Sequence[int],
    values: NDArray[np.floating],
    indices: NDArray[np.integer],
    imatrix: NDArray[np.float32] | None = None,
) -> None:
    """Write `values` float32 or float16 [..., r, cols] over the rows `indices` [..., r] of `data`, in place.

    `data` uint8 [n_bytes], `shape` (..., rows, cols), `values` with the same sizes before the last two. Where `indices`
    has a smaller size, its entries are taken again from the first one. Of rows written twice the last one stays. Raises
    UsageProblem that names the argument and what it should have been: among them an encoding without a quantizer, and one
    that needs `imatrix` float32 [cols] where there is none.
    """
    found = unit(encoding)
    sizes = _sizes("set_rows", found, shape)
    check_data("set_rows", found, data, sizes)
    if not data.flags.writeable:
        raise refused("set_rows", found, "data", "read-only memory", "writable memory")
    *batch, rows, cols = sizes
    _check_indices("set_rows", found, indices, rows)
    wanted = (*batch, indices.shape[-1], cols)
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float32, np.float16):
        raise refused("set_rows", found, "values", _kind(values), "a numpy array of float32 or float16")
    if values.shape != wanted:
        raise refused("set_rows", found, "values", f"shape {values.shape}", f"{wanted}")
    if indices.ndim != len(batch) + 1 or any(
        not size or whole % size for whole, size in zip(batch, indices.shape[:-1], strict=True)
    ):
        raise refused("set_rows", found, "indices", f"shape {indices.shape}", f"divisors of {(*batch, 'r')}")
    repeats = [whole // size for whole, size in zip(batch, indices.shape[:-1], strict=True)]
    encoded = encode(encoding, np.ascontiguousarray(values, np.float32), imatrix)
    encoded = encoded.reshape(math.prod(batch), indices.shape[-1], encoded_bytes(found, (cols,)))
    targets = np.tile(indices, (*repeats, 1)).reshape(math.prod(batch), indices.shape[-1])
    _encoded_rows(found, data, sizes)[_matrix_numbers(batch), targets] = encoded


def cpy(
    source: str,
    data: NDArray[np.uint8],
    shape: Sequence[int],
    target: str,
    axes: Sequence[int] | None = None,
) -> NDArray[np.uint8]:
    """`data` uint8 [n_bytes], `shape` in the encoding `source`, written in the encoding `target`: uint8 [n_bytes].

    With `axes` the dimensions are permuted, as by `numpy.transpose`, and the result has the permuted shape. Blocks go
    over as they are where both encodings are the same, and are decoded and encoded again where they differ. Raises
    UsageProblem that names the argument and what it should have been: among them a target without a quantizer, and a
    last dimension that is moved where its blocks would have to be taken apart.
    """
    found = unit(source)
    sizes = tuple(operator.index(size) for size in shape)
    check_data("cpy", found, data, sizes)
    order = tuple(range(len(sizes))) if axes is None else tuple(operator.index(axis) for axis in axes)
    if sorted(order) != list(range(len(sizes))):
        raise refused("cpy", found, "axes", order, f"each of 0 to {len(sizes) - 1} once")
    if source != target:
        values = dequantize(source, data, sizes).transpose(order)
        return encode(target, np.ascontiguousarray(values))
    if order[-1] != len(sizes) - 1 and found.block_elems > 1:
        raise refused("cpy", found, "axes", order, f"{len(sizes) - 1} last: blocks run along that dimension")
    blocks = data.reshape(*sizes[:-1], sizes[-1] // found.block_elems, found.block_bytes)
    return np.ascontiguousarray(blocks.transpose(*order, len(sizes))).reshape(-1)


def copy(source: View, target: View, imatrix: NDArray[np.float32] | None = None) -> None:
    """Write the elements of `source`, in their row-major order, to those of `target`, in theirs; shapes may differ.

    Within one encoding whole blocks go over as they are. Between two, values are decoded and encoded again; to an integer
    they are cut off towards zero, as C does. Raises UsageProblem for another number of elements (or, within one encoding,
    rows that blocks do not fit), memory that is read-only, and a target without a quantizer.
    """
    if math.prod(source.shape) != math.prod(target.shape):
        raise target.refused("shape", target.shape, f"as many elements as {source.shape}")
    if not target.data.flags.writeable:
        raise target.refused("data", "read-only memory", "writable memory")
    if source.encoding == target.encoding:
        blocks = target.blocks()
        blocks[...] = source.blocks().reshape(blocks.shape)
        return
    values = source.values().reshape(target.shape)
    if target.encoding in INTEGERS:
        with np.errstate(invalid="ignore"):
            whole = values.astype(INTEGERS[target.encoding])
        target.blocks()[...] = whole[..., None].view(np.uint8)
        return
    rows = target.rows()
    encoded = encode(target.encoding, np.ascontiguousarray(values, np.float32), imatrix)
    rows[...] = encoded.reshape(rows.shape)


def out_prod(
    encoding: str, data: NDArray[np.uint8], shape: Sequence[int], x: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The sum over r of `x[r, i] * w[r, j]`: float32 [n, m], of `x` float32 [k, n] and the decoded weights [k, m].

    `data` uint8 [n_bytes], `shape` (k, m): blocks run across the sum, so that there is no dot product of blocks, and the
    engine multiplies decoded weights too. Summed in float64 and rounded once. Raises UsageProblem that names the
    argument and what it should have been.
    """
    found = unit(encoding)
    sizes = tuple(operator.index(size) for size in shape)
    if len(sizes) != 2:
        raise refused("out_prod", found, "shape", sizes, "two sizes, (k, m)")
    check_data("out_prod", found, data, sizes)
    k, m = sizes
    if not isinstance(x, np.ndarray) or x.dtype != np.float32:
        raise refused("out_prod", found, "x", _kind(x), "a numpy array of float32")
    if x.ndim != 2 or x.shape[0] != k:
        raise refused("out_prod", found, "x", f"shape {x.shape}", f"({k}, n), a row for each of the weights'")
    total = np.zeros((x.shape[1], m))
    row_bytes = encoded_bytes(found, (m,))
    step = max(1, CHUNK_WEIGHTS // max(1, m))
    with np.errstate(all="ignore"):
        for start in range(0, k, step):
            run = x[start : start + step]
            part = data[start * row_bytes : (start + len(run)) * row_bytes]
            total += run.T.astype(np.float64) @ dequantize(encoding, part, (len(run), m)).astype(np.float64)
        return total.astype(np.float32)


def encode(
    encoding: str, values: NDArray[np.float32], imatrix: NDArray[np.float32] | None = None
) -> NDArray[np.uint8]:
    """`values` float32 [..., cols], contiguous, as the engine's ops write them: uint8 [n_bytes].

    The engine's ops share the code that quantizes activations, which rounds Q8_0 otherwise than the quantizer of weights,
    and takes the first scale that the search for IQ4_NL would start from. `imatrix` is for the encodings that need one.
    """
    if encoding == "ggml.iq4_nl":
        found = unit(encoding)
        encoded_bytes(found, values.shape)
        return encode_at_once(values.reshape(-1, values.shape[-1]), **tables_of(found)).reshape(-1)
    if encoding in quantizer.offered()["quantize_activation"]:
        return quantizer.quantize_activation(encoding, values)
    return quantizer.quantize(encoding, values, imatrix if encoding in quantizer.NEEDS_IMPORTANCE else None)


def offered() -> dict[str, tuple[str, ...]]:
    """The ops of this module -> the encodings of weights that they are meant for; of `cpy` those that it writes."""
    every = tuple(found.encoding for found in load_units().values() if found.activation is not None)
    written = {e for encodings in quantizer.offered().values() for e in encodings}
    targets = tuple(e for e in every if e in written and e not in quantizer.NEEDS_IMPORTANCE)
    return {"get_rows": every, "out_prod": every, "set_rows": targets, "cpy": targets}


def _encoded_rows(found: Unit, data: NDArray[np.uint8], sizes: tuple[int, ...]) -> NDArray[np.uint8]:
    """A view [matrices, rows, row_bytes]."""
    return data.reshape(math.prod(sizes[:-2]), sizes[-2], encoded_bytes(found, sizes[-1:]))


def _matrix_numbers(batch: Sequence[int]) -> NDArray[np.intp]:
    return np.arange(math.prod(batch))[:, None]


def _sizes(op: str, found: Unit, shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(operator.index(size) for size in shape)
    if len(sizes) < 2:
        raise refused(op, found, "shape", sizes, "two sizes or more, (..., rows, cols)")
    return sizes


def _check_indices(op: str, found: Unit, indices: NDArray[np.integer], rows: int) -> None:
    if not isinstance(indices, np.ndarray) or indices.dtype not in (np.int32, np.int64):
        raise refused(op, found, "indices", _kind(indices), "a numpy array of int32 or int64")
    if indices.ndim == 0:
        raise refused(op, found, "indices", "no dimension", "at least one")
    outside = indices[(indices < 0) | (indices >= rows)]
    if outside.size:
        raise refused(op, found, "indices", outside[0], f"0 to {rows - 1}")


def _kind(argument: Any) -> Any:
    return argument.dtype if isinstance(argument, np.ndarray) else type(argument).__name__
