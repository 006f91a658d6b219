"""Writing GGUF files: for tests and for the project's own small models. Data is streamed, never gathered."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from harness.containers.checkpoint import ByteOrder
from harness.containers.ggml_types import ggml_types
from harness.containers.gguf_format import (
    ALIGNMENT_KEY,
    ARRAY,
    DEFAULT_ALIGNMENT,
    MAGIC,
    MAX_DIMS,
    MAX_NAME_BYTES,
    STRING,
    VALUE_TYPES_BY_NAME,
    VERSIONS,
    ValueType,
    padded,
)
from harness.errors import UsageProblem

Bytes = bytes | bytearray | memoryview | np.ndarray[Any, Any]

_NUMPY_TYPES = {
    "u1": "u8", "i1": "i8", "u2": "u16", "i2": "i16", "u4": "u32", "i4": "i32",
    "u8": "u64", "i8": "i64", "f4": "f32", "f8": "f64", "b1": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Typed:
    """A metadata value whose type is stated: `Typed("u16", 3)`, `Typed("i32", [1, 2])`, `Typed("str", [])`."""

    type_name: str
    value: Any


class TensorData(NamedTuple):
    """One tensor to write. `shape` is row-major; `data` holds the encoded bytes in the file's byte order.

    `data` is one buffer, or a function that returns the pieces of it in order (for what should not be in memory at once).
    """

    name: str
    type_id: int
    shape: tuple[int, ...]
    data: Bytes | Callable[[], Iterable[Bytes]]


def write_gguf(
    path: str | Path,
    metadata: Mapping[str, Any],
    tensors: Sequence[TensorData | tuple[str, int, tuple[int, ...], Any]],
    *,
    version: int = 3,
    byte_order: ByteOrder = "little",
    alignment: int = DEFAULT_ALIGNMENT,
) -> None:
    """Writes one GGUF file; it appears under its name only when it is complete.

    Metadata values without a stated type: bool, str and bytes as they are, float as f32, int as u32 or, where that
    does not hold it, i32, u64 or i64; a numpy array by its dtype; a list by its first item. `general.alignment` is
    added when `alignment` is not 32. Raises UsageProblem for what no GGUF file can hold.
    """
    if version not in VERSIONS:
        raise UsageProblem(f"GGUF version {version}: wanted one of {VERSIONS}")
    if alignment <= 0 or alignment & (alignment - 1):
        raise UsageProblem(f"alignment {alignment}: wanted a power of two")
    if ALIGNMENT_KEY in metadata:
        raise UsageProblem(
            f"{ALIGNMENT_KEY} is written from the argument `alignment`; leave it out of the metadata"
        )
    if alignment != DEFAULT_ALIGNMENT:
        metadata = {**metadata, ALIGNMENT_KEY: Typed("u32", alignment)}
    if "" in metadata:
        raise UsageProblem("an empty key: wanted a name")
    prefix = "<" if byte_order == "little" else ">"
    rows = [TensorData(*tensor) for tensor in tensors]
    target = Path(path)
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    try:
        with partial.open("wb") as out:
            out.write(MAGIC + struct.pack(f"{prefix}IQQ", version, len(rows), len(metadata)))
            for key, value in metadata.items():
                out.write(_string(prefix, key) + _value(prefix, key, value))
            _write_infos(out, prefix, rows, alignment)
            for tensor in rows:
                _pad(out, alignment)
                _write_data(out, tensor)
            if rows:
                _pad(out, alignment)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def tensor_nbytes(type_id: int, shape: Sequence[int]) -> int:
    """Bytes that a tensor of this type and row-major shape takes. Raises UsageProblem when rows do not hold whole blocks."""
    kind = ggml_types().get(type_id)
    if kind is None:
        raise UsageProblem(f"type {type_id} is not a ggml type that a file can hold")
    row = shape[-1] if shape else 1
    if row % kind.block_elems:
        raise UsageProblem(
            f"rows of {row} elements are not a multiple of {kind.block_elems}, one block of {kind.name}"
        )
    return math.prod(shape) // kind.block_elems * kind.block_bytes


def _write_infos(out: BinaryIO, prefix: str, rows: Sequence[TensorData], alignment: int) -> None:
    start = 0
    names: set[str] = set()
    for tensor in rows:
        if tensor.name in names:
            raise UsageProblem(f"tensor {tensor.name} is given twice")
        names.add(tensor.name)
        if len(tensor.name.encode()) > MAX_NAME_BYTES or len(tensor.shape) > MAX_DIMS:
            raise UsageProblem(
                f"tensor {tensor.name}: at most {MAX_NAME_BYTES} bytes of name, {MAX_DIMS} dimensions"
            )
        dims = struct.pack(f"{prefix}I{len(tensor.shape)}Q", len(tensor.shape), *reversed(tensor.shape))
        out.write(_string(prefix, tensor.name) + dims + struct.pack(f"{prefix}IQ", tensor.type_id, start))
        start += padded(tensor_nbytes(tensor.type_id, tensor.shape), alignment)


def _write_data(out: BinaryIO, tensor: TensorData) -> None:
    written = 0
    for piece in tensor.data() if callable(tensor.data) else (tensor.data,):
        raw = (
            np.ascontiguousarray(piece).view(np.uint8) if isinstance(piece, np.ndarray) else memoryview(piece)
        )
        written += out.write(raw.data if isinstance(raw, np.ndarray) else raw)
    wanted = tensor_nbytes(tensor.type_id, tensor.shape)
    if written != wanted:
        raise UsageProblem(
            f"tensor {tensor.name}: {written} bytes of data, wanted {wanted} for shape {tensor.shape}"
        )


def _pad(out: BinaryIO, alignment: int) -> None:
    position = out.tell()
    out.write(bytes(padded(position, alignment) - position))


def _string(prefix: str, text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(f"{prefix}Q", len(raw)) + raw


def _value(prefix: str, key: str, value: Any) -> bytes:
    """A value with its type in front."""
    stated = value if isinstance(value, Typed) else None
    plain = value.value if isinstance(value, Typed) else value
    if isinstance(plain, list | tuple | np.ndarray):
        kind = _type(key, stated.type_name) if stated else _item_type(key, plain)
        head = struct.pack(f"{prefix}IIQ", ARRAY.type_id, kind.type_id, len(plain))
        return head + _items(prefix, key, kind, plain)
    kind = _type(key, stated.type_name if stated else _guess(key, plain))
    return struct.pack(f"{prefix}I", kind.type_id) + _items(prefix, key, kind, [plain])


def _items(prefix: str, key: str, kind: ValueType, items: Any) -> bytes:
    if kind is STRING:
        if not all(isinstance(item, str | bytes) for item in items):
            raise UsageProblem(f"{key}: not every item is a string")
        return b"".join(_string(prefix, item) for item in items)
    if isinstance(items, np.ndarray) and _NUMPY_TYPES.get(items.dtype.str[1:]) == kind.name:
        # Bit by bit: a signalling NaN would come back quiet from a Python float.
        return items.astype(np.dtype(f"{prefix}{kind.code}")).tobytes()
    numbers = items.tolist() if isinstance(items, np.ndarray) else items
    try:
        return struct.pack(f"{prefix}{len(numbers)}{kind.code}", *numbers)
    except (struct.error, OverflowError) as error:
        raise UsageProblem(f"{key}: not a value of type {kind.name}: {error}") from None


def _item_type(key: str, items: Any) -> ValueType:
    if isinstance(items, np.ndarray):
        name = _NUMPY_TYPES.get(items.dtype.str[1:])
        if name is None or items.ndim != 1:
            raise UsageProblem(
                f"{key}: a {items.ndim}-dimensional array of {items.dtype} has no metadata type"
            )
        return VALUE_TYPES_BY_NAME[name]
    if not items:
        raise UsageProblem(f"{key}: an empty list needs a stated type, as in Typed('u32', [])")
    if all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        return VALUE_TYPES_BY_NAME[_integer_type(key, min(items), max(items))]
    return VALUE_TYPES_BY_NAME[_guess(key, items[0])]


def _guess(key: str, value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, str | bytes):
        return "str"
    if isinstance(value, float | np.floating):
        return "f32"
    if isinstance(value, int | np.integer):
        return _integer_type(key, int(value), int(value))
    raise UsageProblem(f"{key}: {type(value).__name__} has no metadata type")


def _integer_type(key: str, low: int, high: int) -> str:
    """The first of u32, i32, u64, i64 that holds both."""
    for name, least, bits in (
        ("u32", 0, 32),
        ("i32", -(1 << 31), 31),
        ("u64", 0, 64),
        ("i64", -(1 << 63), 63),
    ):
        if least <= low and high < 1 << bits:
            return name
    raise UsageProblem(f"{key}: no metadata type holds the numbers from {low} to {high}")


def _type(key: str, name: str) -> ValueType:
    kind = VALUE_TYPES_BY_NAME.get(name)
    if kind is None or kind is ARRAY:
        raise UsageProblem(f"{key}: {name} is not a metadata type of single values")
    return kind
