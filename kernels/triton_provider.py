"""Our provider on the Triton backends: every encoding on torch tensors, on a CPU under the interpreter or on a GPU.

Triton reads TRITON_INTERPRET when this module is first imported: with it set, tensors are on the CPU and the backend is
`triton@interpreter`; without it they are on a GPU and the backend is `triton@sm_<capability>`.

Nothing is ever copied to make it contiguous. Strides of activations and of an `out` are honoured, whatever they are;
what cannot be done is refused by name with a UsageProblem.
"""

from __future__ import annotations

import contextlib
import math
import operator
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
import triton  # type: ignore[import-not-found,unused-ignore]

from harness.errors import UsageProblem
from kernels.common.triton.expand import expand
from kernels.common.triton.matmul import add_splits
from kernels.common.triton.matmul import matmul as matmul_loop
from kernels.common.triton.matvec import matvec
from kernels.common.triton.plan import (
    EXPAND_WARPS,
    MAX_ROWS,
    MIN_CAPABILITY,
    Plan,
    alignment,
    constants,
    decoder,
    expand_groups,
    plan_matmul,
)
from kernels.tables import tables_of
from kernels.units import Unit, encoded_bytes, unit

INTERPRETED = bool(triton.knobs.runtime.interpret)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def backend(device: Any) -> str:
    """The backend that tensors on `device` run on; raises UsageProblem where there is none."""
    device = torch.device(device)
    if INTERPRETED:
        if device.type != "cpu":
            raise UsageProblem(f"triton: TRITON_INTERPRET is set: wanted tensors on the CPU, got {device}")
        _check_interpreter()
        return "triton@interpreter"
    if device.type != "cuda":
        raise UsageProblem(
            f"triton: got tensors on {device}, wanted a CUDA device, or TRITON_INTERPRET=1 in the environment"
        )
    major, minor = torch.cuda.get_device_capability(device)
    if 10 * major + minor < MIN_CAPABILITY:
        raise UsageProblem(f"triton: {device} is sm_{major}{minor}: wanted sm_{MIN_CAPABILITY} or later")
    return f"triton@sm_{major}{minor}"


def dequantize(
    encoding: str,
    data: Any,
    shape: Sequence[int],
    out_dtype: Any = torch.float32,
    out: Any = None,
) -> Any:
    """Decode `data` uint8 [n_bytes] to a tensor [shape] of float32, float16 or bfloat16; into `out` where given.

    float32 has the bits that the encoding defines; the narrower types are that value rounded once to nearest even.
    """
    where = f"dequantize {encoding}"
    found, shape = unit(encoding), tuple(operator.index(size) for size in shape)
    _check_data(where, found, data, shape)
    if out is None:
        _check_dtype(where, "out_dtype", out_dtype)
        out = torch.empty(shape, dtype=out_dtype, device=data.device)
    else:
        _check_out(where, out, shape, data, data)
        if not out.is_contiguous():
            raise _refused(
                where, "out", f"strides {tuple(out.stride())}", "contiguous rows, one after the other"
            )
    blocks = math.prod(shape) // found.block_elems
    if blocks:
        _expand(found, data, None, out, wanted=1, data_rows=1, row_blocks=blocks, out_row=0)
    return out


def get_rows(
    encoding: str,
    rows: Any,
    data: Any,
    shape: Sequence[int],
    out_dtype: Any = torch.float32,
) -> Any:
    """The rows `rows` int64 [n] of weights [shape] (rows, columns), decoded: a tensor [n, columns].

    Raises UsageProblem for a number that is no row. While a CUDA graph is being captured the numbers cannot be looked
    at: then such a row is NaN, and nothing outside the data is read.
    """
    where = f"get_rows {encoding}"
    found, shape = unit(encoding), _matrix_shape(where, shape)
    _check_data(where, found, data, shape)
    _check_dtype(where, "out_dtype", out_dtype)
    if not isinstance(rows, torch.Tensor) or rows.dtype != torch.int64 or rows.ndim != 1:
        raise _refused(where, "rows", _kind(rows), "an int64 tensor [n]")
    if rows.device != data.device or not rows.is_contiguous():
        raise _refused(where, "rows", f"{rows.device}, stride {rows.stride(0)}", f"{data.device}, stride 1")
    capturing = rows.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    if not capturing and rows.numel():
        low, high = (int(bound) for bound in torch.aminmax(rows))
        if low < 0 or high >= shape[0]:
            raise _refused(where, "rows", f"numbers from {low} to {high}", f"from 0 to {shape[0] - 1}")
    out = torch.empty((rows.numel(), shape[1]), dtype=out_dtype, device=data.device)
    if out.numel():
        row_blocks = shape[1] // found.block_elems
        _expand(found, data, rows, out, rows.numel(), shape[0], row_blocks, out.stride(0))
    return out


def matmul(
    encoding: str,
    x: Any,
    data: Any,
    shape: Sequence[int],
    out_dtype: Any = torch.float32,
    out: Any = None,
    plan: Plan | None = None,
) -> Any:
    """x [m, k] times the transpose of the weights [shape] (n, k) that `data` uint8 [n_bytes] encodes: a tensor [m, n].

    Activations are float16, bfloat16 or float32, with any strides. The weights are decoded a tile at a time. Sums are in
    float32; `plan_for` says which loop runs, with which tile, and what it does to the weights; `plan` asks for another.
    The same call gives the same bits.
    """
    where = f"matmul {encoding}"
    found, shape = unit(encoding), _matrix_shape(where, shape)
    n, k = shape
    _check_data(where, found, data, shape)
    _check_activations(where, x, k, data)
    m = x.shape[0]
    if out is None:
        _check_dtype(where, "out_dtype", out_dtype)
        out = torch.empty((m, n), dtype=out_dtype, device=data.device)
    else:
        _check_out(where, out, (m, n), data, data, x)
        if any(stride == 0 and size > 1 for stride, size in zip(out.stride(), out.shape, strict=True)):
            raise _refused(
                where, "out", f"strides {tuple(out.stride())}", "elements with memory of their own"
            )
    if m == 0 or n == 0 or k == 0:
        return out.zero_()
    _multiply(found, x, data, out, plan or plan_for(encoding, x, shape))
    return out


def plan_for(encoding: str, x: Any, shape: Sequence[int], splits: int | None = None) -> Plan:
    """The plan that `matmul` of the same arguments follows."""
    n, k = _matrix_shape(f"matmul {encoding}", shape)
    return plan_matmul(unit(encoding), x.shape[0], n, k, name_of(x.dtype), _processors(x.device), splits)


def _multiply(found: Unit, x: Any, data: Any, out: Any, plan: Plan) -> None:
    tile = plan.tile
    m, n = out.shape
    row_blocks = x.shape[1] // found.block_elems
    options = constants(found) | {
        "align": alignment(found, data.data_ptr()),
        "rows_x": tile.rows_x,
        "rows_w": tile.rows_w,
        "columns": tile.groups,
        "whole": row_blocks % (tile.groups // decoder(found).GROUPS) == 0,
        "emulated": INTERPRETED,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }
    grid = (math.ceil(n / tile.rows_w), math.ceil(m / tile.rows_x))
    with _on(data.device):
        tables = _tables(found, str(data.device))
        if plan.loop == "matvec":
            matvec[grid](data, x, out, *tables, m, n, row_blocks, *x.stride(), *out.stride(), **options)
            return
        parts, strides = out, (0, *out.stride())
        if plan.splits > 1:
            parts = torch.empty((plan.splits, m, n), dtype=torch.float32, device=data.device)
            strides = parts.stride()
        matmul_loop[(*grid, plan.splits)](
            data, x, parts, *tables, m, n, row_blocks, plan.split_blocks, *x.stride(), *strides, **options
        )
        if plan.splits > 1:
            add_splits[(math.ceil(n / 256), m)](
                parts, out, m, n, plan.splits, m * n, *out.stride(), tile=256, emulated=INTERPRETED
            )


def _expand(
    found: Unit, data: Any, rows: Any, out: Any, wanted: int, data_rows: int, row_blocks: int, out_row: int
) -> None:
    groups = expand_groups(found, INTERPRETED)
    row_tiles = math.ceil(row_blocks * decoder(found).GROUPS / groups)
    with _on(data.device):
        expand[(wanted * row_tiles,)](
            data,
            rows,
            out,
            *_tables(found, str(data.device)),
            data_rows,
            row_blocks,
            row_tiles,
            out_row,
            **constants(found),
            align=alignment(found, data.data_ptr()),
            columns=groups,
            emulated=INTERPRETED,
            num_warps=EXPAND_WARPS,
        )


@contextlib.contextmanager
def _on(device: Any) -> Iterator[None]:
    """Launch on `device`.

    The interpreter computes with numpy, where infinities and NaNs are ordinary input and raise no warning, and takes
    loop bounds out of arrays in a way that numpy announces the end of.
    """
    backend(device)
    if INTERPRETED:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Conversion of an array with ndim > 0", DeprecationWarning)
            yield
    else:
        with torch.cuda.device(device):
            yield


@cache
def _tables(found: Unit, device: str) -> tuple[Any, Any]:
    """The lookup tables of an encoding on a device, in the order of its unit; None where it has fewer than two."""
    tensors = [torch.from_numpy(table.copy()).to(device) for table in tables_of(found).values()]
    first, second = [*tensors, None, None][:2]
    return first, second


@cache
def _processors(device: Any) -> int:
    """Multiprocessors of a GPU; under the interpreter one, so that nothing is split unless asked for."""
    return 1 if INTERPRETED else int(torch.cuda.get_device_properties(device).multi_processor_count)


@cache
def _check_interpreter() -> None:
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version < (3, 7) and tuple(int(part) for part in np.__version__.split(".")[:2]) >= (2, 4):
        raise UsageProblem(
            f"triton: the interpreter of {triton.__version__} fails under numpy {np.__version__}: wanted numpy < 2.4"
        )


def _matrix_shape(where: str, shape: Sequence[int]) -> tuple[int, int]:
    sizes = tuple(operator.index(size) for size in shape)
    if len(sizes) != 2:
        raise _refused(where, "shape", f"{sizes}", "two dimensions: rows and columns of the weights")
    return sizes


def _check_data(where: str, found: Unit, data: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(data, torch.Tensor) or data.dtype != torch.uint8 or data.ndim != 1:
        raise _refused(where, "data", _kind(data), "a uint8 tensor [n_bytes]")
    wanted = encoded_bytes(found, shape)
    if data.numel() != wanted:
        raise _refused(where, "data", f"{data.numel()} bytes", f"{wanted} for shape {shape}")
    if not data.is_contiguous():
        raise _refused(where, "data", f"stride {data.stride(0)}", "contiguous bytes")
    if shape[-1] // found.block_elems * found.block_bytes >= 2**31:
        raise _refused(where, "shape", f"{shape}", "rows of fewer than 2^31 bytes")
    backend(data.device)


def _check_activations(where: str, x: Any, k: int, data: Any) -> None:
    if not isinstance(x, torch.Tensor) or x.dtype not in FLOATS or x.ndim != 2:
        raise _refused(where, "x", _kind(x), "a float16, bfloat16 or float32 tensor [m, k]")
    if x.shape[1] != k:
        raise _refused(where, "x", f"{x.shape[1]} columns", f"{k}, as the weights have")
    if x.device != data.device:
        raise _refused(where, "x", f"{x.device}", f"{data.device}, where the data is")
    if x.shape[0] > MAX_ROWS:
        raise _refused(where, "x", f"{x.shape[0]} rows", f"at most {MAX_ROWS}")


def _check_out(where: str, out: Any, shape: tuple[int, ...], data: Any, *read: Any) -> None:
    if not isinstance(out, torch.Tensor) or out.dtype not in FLOATS or tuple(out.shape) != shape:
        raise _refused(where, "out", _kind(out), f"a float32, float16 or bfloat16 tensor {list(shape)}")
    if out.device != data.device:
        raise _refused(where, "out", f"{out.device}", f"{data.device}, where the data is")
    if any(_overlap(out, tensor) for tensor in read):
        raise _refused(where, "out", "memory that is read", "memory of its own")


def _overlap(first: Any, second: Any) -> bool:
    """Whether the spans of memory that two tensors reach over have a byte in common."""
    if not first.numel() or not second.numel():
        return False
    (start, end), (other_start, other_end) = _span(first), _span(second)
    return bool(start < other_end and other_start < end)


def _span(tensor: Any) -> tuple[int, int]:
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (reach + 1) * tensor.element_size()


def _check_dtype(where: str, argument: str, dtype: Any) -> None:
    if dtype not in FLOATS:
        raise _refused(where, argument, f"{dtype}", "float32, float16 or bfloat16")


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{name_of(value.dtype)} {list(value.shape)}"


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _refused(where: str, argument: str, got: str, wanted: str) -> UsageProblem:
    return UsageProblem(f"{where}: {argument}: got {got}, wanted {wanted}")
