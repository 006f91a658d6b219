"""Our quantizers on the `cpu` backend: `quantize.py` of each unit, behind the interface that every subject has."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageProblem
from kernels.tables import tables_of
from kernels.units import Unit, encoded_bytes, load_units, unit

CHUNK_WEIGHTS = 1 << 15
"""Weights encoded at a time, in whole rows: 128 KiB of float32, of which a search keeps some ten copies in the cache."""

NEEDS_IMPORTANCE = frozenset({"ggml.iq1_s", "ggml.iq2_xxs", "ggml.iq2_xs"})
"""Encodings that are quantized with an importance matrix only."""


def quantize(
    encoding: str, values: NDArray[np.float32], imatrix: NDArray[np.float32] | None = None
) -> NDArray[np.uint8]:
    """Encode `values` float32 [..., n_cols] to uint8 [n_bytes], row after row, as the engine's quantizer does.

    `imatrix` float32 [n_cols] weighs the squared error of each column. Encodings that do not search ignore it.

    Raises UsageProblem that names the argument and what it should have been: an encoding that is unknown or has no
    quantizer, another dtype, no dimension, rows that are no multiple of the block, an importance matrix of another
    shape or dtype, none where the encoding needs one, or values so large, or not finite, that no row of an encoding's
    table has a finite error (there the engine ends the process).
    """
    found = unit(encoding)
    encode = _offered(found, "encode", "quantize")
    rows = _rows(found, values, "quantize")
    if imatrix is not None:
        _check_imatrix(found, imatrix, rows.shape[1])
    elif encoding in NEEDS_IMPORTANCE:
        raise _refused(
            found,
            "imatrix",
            "none",
            f"one: it is quantized with an importance matrix only, [{rows.shape[1]}]",
        )
    tables = tables_of(found)
    try:
        return _in_chunks(found, rows, lambda chunk: encode(chunk, imatrix, **tables))
    except OverflowError as problem:
        got = f"numbers for which {problem}"
        raise _refused(found, "values", got, "finite ones of a moderate size") from None


def quantize_activation(encoding: str, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Encode activations `values` float32 [..., n_cols] to uint8 [n_bytes] in `encoding` (`ggml.q8_k`).

    As the engine's dot products prepare their second operand: the unit of the weights names it as `activation`. Raises
    UsageProblem as `quantize` does.
    """
    found = unit(encoding)
    encode = _offered(found, "encode_activation", "quantize_activation")
    return _in_chunks(found, _rows(found, values, "quantize_activation"), encode)


def offered() -> dict[str, tuple[str, ...]]:
    """The two functions of this module -> the encodings that they take."""
    units = load_units().values()
    return {
        op: tuple(u.encoding for u in units if hasattr(_module(u), name))
        for op, name in (("quantize", "encode"), ("quantize_activation", "encode_activation"))
    }


def _in_chunks(
    found: Unit, rows: NDArray[np.float32], encode: Callable[[NDArray[np.float32]], NDArray[np.uint8]]
) -> NDArray[np.uint8]:
    """What is not finite, and scales that overflow, are ordinary input: the warnings that they raise are silenced."""
    out = np.empty((len(rows), encoded_bytes(found, rows.shape[1:])), np.uint8)
    step = max(1, CHUNK_WEIGHTS // max(1, rows.shape[1]))
    if out.size:
        with np.errstate(all="ignore"):
            for start in range(0, len(rows), step):
                out[start : start + step] = encode(rows[start : start + step])
    return out.reshape(-1)


@cache
def _module(found: Unit) -> ModuleType | None:
    file = found.path / "quantize.py"
    spec = importlib.util.spec_from_file_location(f"kernels.{found.encoding}.quantize", file)
    if spec is None or spec.loader is None or not file.is_file():
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _offered(found: Unit, name: str, op: str) -> Callable[..., NDArray[np.uint8]]:
    function: Any = getattr(_module(found), name, None)
    if function is None:
        raise UsageProblem(f"{op}: there is none for {found.encoding}; for {', '.join(offered()[op])}")
    encode: Callable[..., NDArray[np.uint8]] = function
    return encode


def _rows(found: Unit, values: NDArray[np.float32], op: str) -> NDArray[np.float32]:
    """`values` as [n_rows, n_cols]; a view, never a copy."""
    if not isinstance(values, np.ndarray):
        raise _refused(found, "values", type(values).__name__, "a numpy array", op)
    if values.dtype != np.float32:
        raise _refused(found, "values", values.dtype, "float32", op)
    if values.ndim == 0:
        raise _refused(found, "values", "no dimension", "at least one", op)
    if not values.flags.c_contiguous:
        raise _refused(found, "values", f"strides {values.strides}", "contiguous memory", op)
    encoded_bytes(found, values.shape)
    return values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, values.shape[-1])


def _check_imatrix(found: Unit, imatrix: NDArray[np.float32], n_cols: int) -> None:
    if not isinstance(imatrix, np.ndarray):
        raise _refused(found, "imatrix", type(imatrix).__name__, "a numpy array")
    if imatrix.dtype != np.float32:
        raise _refused(found, "imatrix", imatrix.dtype, "float32")
    if imatrix.shape != (n_cols,):
        raise _refused(found, "imatrix", f"shape {imatrix.shape}", f"({n_cols},), a weight a column")


def _refused(found: Unit, argument: str, got: object, wanted: str, op: str = "quantize") -> UsageProblem:
    return UsageProblem(f"{op} {found.encoding}: {argument}: got {got}, wanted {wanted}")
