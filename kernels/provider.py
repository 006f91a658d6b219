"""Our provider on the `cpu` backend: the numpy reference of each unit, behind the interface that every subject has."""

from __future__ import annotations

import importlib.util
import operator
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageProblem
from kernels.common.numpy.blocks import decode_blocks
from kernels.tables import tables_of
from kernels.units import Unit, encoded_bytes, unit


def dequantize(
    encoding: str,
    data: NDArray[np.uint8],
    shape: Sequence[int],
    out: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Decode `data` uint8 [n_bytes], at any alignment, to float32 [shape]; into `out` where one is given.

    Raises UsageProblem that names the argument and what it should have been: an unknown encoding, another dtype or
    byte count, a last dimension that is no multiple of the block, data or out that is not contiguous (nothing is ever
    copied to make it so), an `out` of another shape or dtype, read-only, or overlapping the data.
    """
    found = unit(encoding)
    shape = tuple(operator.index(size) for size in shape)
    wanted_bytes = encoded_bytes(found, shape)
    _check_data(found, data, shape, wanted_bytes)
    if out is None:
        out = np.empty(shape, np.float32)
    else:
        _check_out(found, data, shape, out)
    if out.size:
        decode_blocks(
            reference(found).decode,
            data.reshape(-1, found.block_bytes),
            out.reshape(-1, found.block_elems),
            tables_of(found),
        )
    return out


@cache
def reference(found: Unit) -> Any:
    """The module `reference.py` of a unit."""
    file = found.path / "reference.py"
    spec = importlib.util.spec_from_file_location(f"kernels.{found.encoding}.reference", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageProblem(f"{found.encoding}: there is no {file}")
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_data(found: Unit, data: NDArray[np.uint8], shape: tuple[int, ...], wanted_bytes: int) -> None:
    if not isinstance(data, np.ndarray):
        raise _refused(found, "data", type(data).__name__, "a numpy array")
    if data.dtype != np.uint8:
        raise _refused(found, "data", data.dtype, "uint8")
    if data.ndim != 1:
        raise _refused(found, "data", f"{data.ndim} dimensions", "1")
    if data.size != wanted_bytes:
        raise _refused(found, "data", f"{data.size} bytes", f"{wanted_bytes} for shape {shape}")
    if not data.flags.c_contiguous:
        raise _refused(found, "data", f"stride {data.strides[0]}", "contiguous bytes")


def _check_out(
    found: Unit, data: NDArray[np.uint8], shape: tuple[int, ...], out: NDArray[np.float32]
) -> None:
    if not isinstance(out, np.ndarray):
        raise _refused(found, "out", type(out).__name__, "a numpy array")
    if out.dtype != np.float32:
        raise _refused(found, "out", out.dtype, "float32")
    if out.shape != shape:
        raise _refused(found, "out", f"shape {out.shape}", f"{shape}")
    if not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
        raise _refused(found, "out", "another layout", "contiguous, aligned and writable memory")
    if np.may_share_memory(out, data):
        raise _refused(found, "out", "memory of the data", "memory of its own")


def _refused(found: Unit, argument: str, got: object, wanted: str) -> UsageProblem:
    return UsageProblem(f"dequantize {found.encoding}: {argument}: got {got}, wanted {wanted}")
