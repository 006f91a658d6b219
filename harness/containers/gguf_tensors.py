"""The tensor infos and the data section behind them, held against each other and against the file's end."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.containers.checkpoint import TensorInfo
from harness.containers.ggml_types import GgmlType, ggml_types, removed_types
from harness.containers.gguf_cursor import Cursor, text_of
from harness.containers.gguf_format import (
    MAX_DIMS,
    MAX_ELEMENTS,
    MAX_NAME_BYTES,
    MAX_TENSOR_BYTES,
    TENSOR_COUNT_AT,
    padded,
)
from harness.errors import BadInput


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tensor info as it stands in the file. `start` counts from the start of the data section."""

    name: str
    raw_name: bytes
    type: GgmlType
    shape: tuple[int, ...]
    start: int
    nbytes: int


def read_tensors(
    cursor: Cursor, count: int, alignment: int, part: int, taken: dict[str, str]
) -> list[TensorInfo]:
    """The `count` tensor infos at the cursor, checked, with offsets from the start of the file.

    `taken`: the names used so far, in this part and those before it, and where; the names read are added.
    """
    entries: list[_Entry] = []
    end = 0  # of the data so far, padded: where the next tensor has to begin
    for index in range(count):
        info_at = cursor.position
        try:
            entry = _read_info(cursor, index, end, alignment, taken)
        except BadInput as error:
            raise _count_too_high(cursor, entries, info_at, end, alignment, count) or error from None
        taken[entry.name] = f"tensor_infos[{index}] of {cursor.file.path.name}"
        entries.append(entry)
        end += padded(entry.nbytes, alignment)
    infos_end = cursor.position
    data_start = padded(infos_end, alignment)
    if entries:
        _check_data(cursor, entries, infos_end, data_start)
    if cursor.file.size > data_start + end:
        _refuse_count_too_low(cursor, count, end, alignment, taken)
    return [
        TensorInfo(
            name=entry.name,
            raw_name=entry.raw_name,
            type_id=entry.type.type_id,
            type_name=entry.type.name,
            encoding=entry.type.encoding,
            shape=entry.shape,
            offset=data_start + entry.start,
            nbytes=entry.nbytes,
            part=part,
        )
        for entry in entries
    ]


def _read_info(cursor: Cursor, index: int, end: int, alignment: int, taken: dict[str, str]) -> _Entry:
    here = f"tensor_infos[{index}]"
    name_at = cursor.position
    raw_name = cursor.string(f"{here}.name", MAX_NAME_BYTES, "ggml's limit for tensor names")
    name = text_of(raw_name)
    if b"\0" in raw_name:
        raise cursor.bad(
            f"{here}.name",
            name_at,
            raw_name,
            "a name without NUL bytes",
            hint="engines written in C cut the name there",
        )
    if name in taken:
        raise cursor.bad(
            f"{here}.name",
            name_at,
            f"{name} again",
            "a name that occurs once",
            hint=f"first as {taken[name]}",
        )
    dims_at = cursor.position + 4
    dims = _read_dims(cursor, here, name)
    kind = _read_type(cursor, here, name, dims)
    nbytes = math.prod(dims) // kind.block_elems * kind.block_bytes
    if nbytes > MAX_TENSOR_BYTES:
        # Found here, and not at the next tensor's offset, which would be wrong then too.
        raise cursor.bad(
            f"{here}.dims",
            dims_at,
            f"{nbytes} bytes of {kind.name}",
            f"at most {MAX_TENSOR_BYTES} bytes",
            tensor=name,
        )
    start_at = cursor.position
    start = cursor.u64(f"{here}.offset")
    if start != end:
        wanted = f"{end}, the end of the tensors before it padded to {alignment} bytes"
        raise cursor.bad(f"{here}.offset", start_at, start, wanted, tensor=name)
    return _Entry(name, raw_name, kind, tuple(reversed(dims)), start, nbytes)


def _read_dims(cursor: Cursor, here: str, name: str) -> list[int]:
    """Dimensions in the file's order: the first is the contiguous one."""
    at = cursor.position
    n_dims = cursor.u32(f"{here}.n_dims")
    if n_dims > MAX_DIMS:
        raise cursor.bad(f"{here}.n_dims", at, n_dims, f"at most {MAX_DIMS}", tensor=name)
    dims: list[int] = []
    elements = 1
    for axis in range(n_dims):
        at = cursor.position
        size = cursor.u64(f"{here}.dims[{axis}]")
        # An empty dimension must not hide that the others are out of range.
        elements *= size or 1
        if elements >= MAX_ELEMENTS:
            raise cursor.bad(
                f"{here}.dims[{axis}]", at, size, f"fewer than {MAX_ELEMENTS} elements in all", tensor=name
            )
        dims.append(size)
    return dims


def _read_type(cursor: Cursor, here: str, name: str, dims: list[int]) -> GgmlType:
    at = cursor.position
    type_id = cursor.u32(f"{here}.type")
    removed = removed_types().get(type_id)
    if removed is not None:
        raise cursor.bad(
            f"{here}.type", at, f"{type_id}, the removed type {removed.name}", "a type that ggml still has",
            tensor=name, hint=f"make the file again as {removed.instead}",
        )  # fmt: skip
    kind = ggml_types().get(type_id)
    if kind is None:
        known = f"a ggml type number, 0 to {max(ggml_types())} without {', '.join(map(str, removed_types()))}"
        raise cursor.bad(f"{here}.type", at, type_id, known, tensor=name)
    row = dims[0] if dims else 1
    if row % kind.block_elems:
        raise cursor.bad(
            f"{here}.type", at, f"{kind.name} for rows of {row} elements",
            f"rows of a multiple of {kind.block_elems}, one block of {kind.name}", tensor=name,
        )  # fmt: skip
    return kind


def _check_data(cursor: Cursor, entries: list[_Entry], infos_end: int, data_start: int) -> None:
    size = cursor.file.size
    if data_start > size:
        raise cursor.bad(
            "data section",
            infos_end,
            f"a file of {size} bytes",
            f"data from byte {data_start} on, after the padding",
        )
    for entry in entries:
        first = data_start + entry.start
        if first + entry.nbytes > size:
            raise cursor.bad(
                "tensor data",
                first,
                f"{max(0, size - first)} bytes before the end of the file at {size}",
                f"{entry.nbytes} bytes of {entry.type.name}",
                tensor=entry.name,
                hint=f"{_missing(entries, data_start) - size} bytes are missing at the end: an interrupted download or copy?",
            )


def _missing(entries: list[_Entry], data_start: int) -> int:
    """Where the last tensor's data would end."""
    return data_start + entries[-1].start + entries[-1].nbytes


def _count_too_high(
    cursor: Cursor, entries: list[_Entry], infos_end: int, end: int, alignment: int, count: int
) -> BadInput | None:
    """The true fault, when the infos before an unreadable one describe the file up to its last byte."""
    if not entries:
        return None
    data_start = padded(infos_end, alignment)
    if cursor.file.size not in (data_start + end, _missing(entries, data_start)):
        return None
    return cursor.bad(
        "tensor_count", TENSOR_COUNT_AT, count, f"{len(entries)}: so many tensors account for the whole file"
    )


def _refuse_count_too_low(
    cursor: Cursor, count: int, end: int, alignment: int, taken: dict[str, str]
) -> None:
    """Bytes after the last tensor are allowed, unless another tensor info stands where the infos are said to end.

    The data section would then be looked for too early, and every tensor would hold its neighbour's bytes.
    """
    position = cursor.position
    try:
        extra = _read_info(cursor, count, end, alignment, taken)
    except BadInput:
        return
    finally:
        cursor.position = position
    if extra.name:
        raise cursor.bad(
            "tensor_count",
            TENSOR_COUNT_AT,
            count,
            f"at least {count + 1}: one more tensor info follows",
            tensor=extra.name,
        )
