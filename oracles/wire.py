"""Frames between the harness and a worker: one JSON header, then the raw bytes of the arrays.

    4 bytes  magic  b"HQW1"
    4 bytes  length of the header, u32 little-endian
    n bytes  header: one JSON object, UTF-8; its key "arrays" lists {"name", "dtype", "shape"}
    then     the arrays' bytes in that order: little-endian, row-major, nothing between them

This file is read by both sides and needs the standard library and numpy alone: a worker loads it by path, because
the repository is never on its `sys.path`. docs/protocol.md says the same for a provider in any other language.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

PROTOCOL = 1
MAGIC = b"HQW1"
PREFIX_BYTES = 8
MAX_HEADER_BYTES = 64 << 20
MAX_ARRAYS = 64
MAX_DIMENSIONS = 8
MAX_ARRAY_BYTES = 64 << 30

DTYPES = (
    *("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64"),
)


class WireError(ValueError):
    """Bytes that are not a frame, or a frame outside the limits. The stream cannot be used after it."""


@dataclass(frozen=True)
class ArraySpec:
    """What a header says about one array, before a byte of it was read."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def allocate(self) -> np.ndarray:
        return np.empty(self.shape, np.dtype(self.dtype).newbyteorder("<"))


def header_length(prefix: bytes, limit: int = MAX_HEADER_BYTES) -> int:
    """The header's length in bytes from the first 8 bytes of a frame. Raises WireError."""
    magic, length = struct.unpack("<4sI", prefix)
    if magic != MAGIC:
        raise WireError(f"a frame starts with {MAGIC!r}, got {magic!r}")
    if length > limit:
        raise WireError(f"a header of {length} bytes is over the limit of {limit}")
    return int(length)


def parse_header(raw: bytes) -> dict[str, Any]:
    """The JSON object of a frame. Raises WireError."""
    try:
        header = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(f"the header is not JSON: {str(error)[:120]}") from None
    if not isinstance(header, dict):
        raise WireError(f"the header is a JSON {type(header).__name__}, not an object")
    return header


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def parse_specs(header: Mapping[str, Any]) -> tuple[ArraySpec, ...]:
    """The arrays that a header announces, each checked by itself and all together against the limits.

    Raises WireError; allocates nothing.
    """
    listed = header.get("arrays", [])
    if not isinstance(listed, list) or len(listed) > MAX_ARRAYS:
        raise WireError(f"'arrays' must be a list of at most {MAX_ARRAYS} entries")
    specs = tuple(_parse_spec(entry) for entry in listed)
    if len({spec.name for spec in specs}) != len(specs):
        raise WireError("two arrays have the same name")
    if (total := sum(spec.nbytes for spec in specs)) > MAX_ARRAY_BYTES:
        raise WireError(f"arrays of {total} bytes are over the limit of {MAX_ARRAY_BYTES}")
    return specs


def _parse_spec(entry: object) -> ArraySpec:
    if not isinstance(entry, dict):
        raise WireError("an entry of 'arrays' is not an object")
    name, dtype, shape = entry.get("name"), entry.get("dtype"), entry.get("shape")
    if not isinstance(name, str) or not name:
        raise WireError("an array has no name")
    if dtype not in DTYPES:
        raise WireError(f"array {name[:40]!r}: dtype {str(dtype)[:40]!r} is none of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        raise WireError(f"array {name[:40]!r}: shape must be a list of at most {MAX_DIMENSIONS} sizes")
    if any(type(size) is not int or not 0 <= size <= MAX_ARRAY_BYTES for size in shape):
        raise WireError(f"array {name[:40]!r}: a size in {str(shape)[:80]} is not a count of elements")
    return ArraySpec(name, dtype, tuple(shape))


def encode(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[memoryview]:
    """The pieces of one frame, ready to be written one after the other; arrays that are contiguous are not copied.

    Raises WireError for a dtype that the protocol does not have or a header over the limit, ValueError for a NaN in
    the header (it is strict JSON).
    """
    listed, pieces = [], []
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("=").name
        if dtype not in DTYPES:
            raise WireError(f"array {name!r}: dtype {array.dtype} is none of {', '.join(DTYPES)}")
        listed.append({"name": name, "dtype": dtype, "shape": list(array.shape)})
        pieces.append(as_bytes(np.ascontiguousarray(array, array.dtype.newbyteorder("<"))))
    raw = json.dumps({**header, "arrays": listed}, allow_nan=False).encode()
    if len(raw) > MAX_HEADER_BYTES:
        raise WireError(f"a header of {len(raw)} bytes is over the limit of {MAX_HEADER_BYTES}")
    return [memoryview(struct.pack("<4sI", MAGIC, len(raw)) + raw), *pieces]


def as_bytes(array: np.ndarray) -> memoryview:
    """A contiguous array as a flat view of its bytes, without a copy; empty for an array without elements."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def write_pieces(fd: int, pieces: Iterable[memoryview]) -> None:
    """Write what `encode` gave to a blocking descriptor. Raises OSError when the reader is gone."""
    for piece in pieces:
        rest = piece
        while rest:
            rest = rest[os.write(fd, rest) :]


def read_frame(fd: int, limit: int = MAX_ARRAY_BYTES) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Read one frame from a blocking descriptor; None at a clean end of the stream.

    Nothing is allocated for arrays of more than `limit` bytes together. Raises WireError.
    """
    prefix = _read_exactly(fd, memoryview(bytearray(PREFIX_BYTES)), clean_end=True)
    if prefix is None:
        return None
    raw = memoryview(bytearray(header_length(bytes(prefix))))
    _read_exactly(fd, raw)
    header = parse_header(bytes(raw))
    specs = parse_specs(header)
    if (total := sum(spec.nbytes for spec in specs)) > limit:
        raise WireError(f"arrays of {total} bytes are over the limit of {limit}")
    arrays = {spec.name: spec.allocate() for spec in specs}
    for array in arrays.values():
        _read_exactly(fd, as_bytes(array))
    return header, arrays


def _read_exactly(fd: int, into: memoryview, *, clean_end: bool = False) -> memoryview | None:
    at = 0
    while at < len(into):
        got = os.readv(fd, [into[at:]])
        if not got:
            if clean_end and at == 0:
                return None
            raise WireError(f"the stream ended after {at} of {len(into)} bytes")
        at += got
    return into
