"""GGUF files, versions 2 and 3, either byte order: our own strict reader. See docs/gguf-container.md."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from harness.containers.checkpoint import ByteOrder, Checkpoint, TensorInfo
from harness.containers.files import MappedFile
from harness.containers.gguf_cursor import Cursor, text_of
from harness.containers.gguf_format import (
    ALIGNMENT_KEY,
    ARCHITECTURE_KEY,
    DEFAULT_ALIGNMENT,
    HEADER_BYTES,
    KV_COUNT_AT,
    MAGIC,
    MAX_KEYS,
    MAX_TENSORS,
    MIN_KV_BYTES,
    MIN_TENSOR_INFO_BYTES,
    TENSOR_COUNT_AT,
    VERSION_AT,
    VERSIONS,
)
from harness.containers.gguf_metadata import GgufValue, read_metadata
from harness.containers.gguf_split import check_next_part, check_total, next_parts
from harness.containers.gguf_tensors import read_tensors
from harness.containers.sniff import describe_start
from harness.errors import BadInput


@dataclass(frozen=True, slots=True)
class GgufPart:
    """One GGUF file, read and checked."""

    file: MappedFile
    version: int
    order: ByteOrder
    metadata: dict[str, GgufValue]
    tensors: list[TensorInfo]


def open_gguf(first: MappedFile) -> Checkpoint:
    """The checkpoint whose (first) file is `first`, which is closed again on any error, as are the other parts."""
    with ExitStack() as files:
        files.callback(first.close)
        taken: dict[str, str] = {}
        parts = [_read_part(first, 0, taken)]
        for index, path in next_parts(parts[0].metadata, first).items():
            file = MappedFile(path)
            files.callback(file.close)
            part = _read_part(file, index, taken)
            check_next_part(part.metadata, file, index, parts[0].metadata)
            _check_same_order(part, parts[0])
            parts.append(part)
        tensors = tuple(info for part in parts for info in part.tensors)
        check_total(parts[0].metadata, first, len(tensors))
        architecture = _architecture(parts[0])
        files.pop_all()
    return Checkpoint(
        container="gguf",
        path=first.path,
        parts=tuple(part.file for part in parts),
        architecture=architecture,
        tensors=tensors,
        metadata=parts[0].metadata,
        byte_order=parts[0].order,
        version=str(parts[0].version),
    )


def _read_part(file: MappedFile, part: int, taken: dict[str, str]) -> GgufPart:
    version, order = _read_version(file)
    cursor = Cursor(file, order, TENSOR_COUNT_AT)
    tensor_count = cursor.u64("tensor_count")
    kv_count = cursor.u64("kv_count")
    _check_count(cursor, "tensor_count", TENSOR_COUNT_AT, tensor_count, MIN_TENSOR_INFO_BYTES, MAX_TENSORS)
    _check_count(cursor, "kv_count", KV_COUNT_AT, kv_count, MIN_KV_BYTES, MAX_KEYS)
    metadata = read_metadata(cursor, kv_count)
    tensors = read_tensors(cursor, tensor_count, _alignment(cursor, metadata), part, taken)
    return GgufPart(file, version, order, metadata, tensors)


def _read_version(file: MappedFile) -> tuple[int, ByteOrder]:
    start = file.buffer[:HEADER_BYTES]
    if start[:4] != MAGIC:
        raise BadInput(
            file=file.path,
            field="magic",
            offset=0,
            got=describe_start(file),
            wanted="GGUF, the first bytes of a GGUF file",
        )
    if len(start) < HEADER_BYTES:
        raise BadInput(
            file=file.path,
            field="header",
            offset=len(start),
            got=f"the end of the file after {len(start)} bytes",
            wanted=f"a header of {HEADER_BYTES} bytes",
        )
    # Versions are small numbers: two zero bytes in front can only be one written the other way round.
    order: ByteOrder = "big" if start[4:6] == b"\0\0" else "little"
    version = int.from_bytes(start[4:8], order)
    if version not in VERSIONS:
        raise BadInput(
            file=file.path,
            field="version",
            offset=VERSION_AT,
            got=version,
            wanted=f"version {' or '.join(map(str, VERSIONS))}",
            hint="version 1 has 32-bit counts and no engine reads it any more; convert the model again"
            if version == 1
            else None,
        )
    return version, order


def _check_count(cursor: Cursor, field: str, offset: int, count: int, least: int, limit: int) -> None:
    room = cursor.remaining // least
    if count > room:
        wanted = f"at most {room}: {cursor.remaining} bytes follow and each entry takes {least} or more"
        raise cursor.bad(field, offset, count, wanted)
    if count > limit:
        raise cursor.bad(field, offset, count, f"at most {limit} (this reader's limit)")


def _alignment(cursor: Cursor, metadata: dict[str, GgufValue]) -> int:
    entry = metadata.get(ALIGNMENT_KEY)
    if entry is None:
        return DEFAULT_ALIGNMENT
    if entry.type_name != "u32":
        raise cursor.bad(f"{entry.place} type", entry.type_offset, entry.type_name, "u32")
    alignment: int = entry.value()
    if alignment == 0 or alignment & (alignment - 1):
        raise cursor.bad(entry.place, entry.offset, alignment, "a power of two")
    return alignment


def _architecture(part: GgufPart) -> str | None:
    entry = part.metadata.get(ARCHITECTURE_KEY)
    if entry is None:
        return None
    if entry.type_name != "str":
        raise BadInput(
            file=part.file.path,
            field=f"{entry.place} type",
            offset=entry.type_offset,
            got=entry.type_name,
            wanted="str",
        )
    value = entry.value()
    return value if isinstance(value, str) else text_of(value)


def _check_same_order(part: GgufPart, first: GgufPart) -> None:
    if part.order != first.order:
        raise BadInput(
            file=part.file.path,
            field="version",
            offset=VERSION_AT,
            got=f"a {part.order}-endian file",
            wanted=f"{first.order}-endian, as in {first.file.path.name}",
        )
