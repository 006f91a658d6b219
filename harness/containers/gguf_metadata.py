"""The key-value section: checked and indexed when a file is opened, decoded only when a value is asked for."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.containers.checkpoint import ByteOrder
from harness.containers.files import MappedFile
from harness.containers.gguf_cursor import Cursor, text_of
from harness.containers.gguf_format import (
    ARRAY,
    MAX_ARRAY_ITEMS,
    MAX_KEY_BYTES,
    MAX_STRING_BYTES,
    STRING,
    VALUE_TYPES,
    ValueType,
)
from harness.errors import BadInput

LOAD_LIMIT = 64 << 20
"""Bytes of memory that one value may take when it is decoded, unless the caller allows more."""

_STRING_OBJECT_BYTES = 64  # what a decoded string costs beside its characters


@dataclass(frozen=True, slots=True)
class GgufValue:
    """One key's value: `offset` and `nbytes` say where it lies in the file, `count` how many items it has.

    `type_name` is `u32`, `str`, …, and `u32[]`, `str[]`, … for an array. `index` is its place in the section.
    """

    key: str
    index: int
    item: ValueType
    is_array: bool
    count: int
    offset: int
    nbytes: int
    file: MappedFile = field(repr=False)
    order: ByteOrder = field(repr=False)

    @property
    def type_name(self) -> str:
        return f"{self.item.name}[]" if self.is_array else self.item.name

    @property
    def type_offset(self) -> int:
        """Where the value's type stands: in front of it, and before an array's item type and count."""
        return self.offset - (16 if self.is_array else 4)

    @property
    def place(self) -> str:
        """How errors name this value."""
        return f"kv[{self.index}] {self.key}"

    def value(self, limit: int = LOAD_LIMIT) -> Any:
        """int, float, bool, or str (bytes when it is not UTF-8); for an array a numpy array or a list of strings.

        Raises BadInput when decoding would take more than `limit` bytes of memory.
        """
        cost = self.nbytes + (self.count * _STRING_OBJECT_BYTES if self.item is STRING else 0)
        if cost > limit:
            raise BadInput(
                file=self.file.path,
                field=self.place,
                offset=self.offset,
                got=f"{self.type_name} with {self.count} items, {cost} bytes when decoded",
                wanted=f"at most {limit} bytes",
            )
        if self.item is STRING:
            strings = self._strings()
            return strings if self.is_array else strings[0]
        if self.is_array:
            raw = np.frombuffer(self.file.buffer, dtype=self._dtype(), count=self.count, offset=self.offset)
            if self.item.name == "bool":
                return raw != 0
            return raw.astype(raw.dtype.newbyteorder("="))
        scalar = struct.unpack_from(f"{self._prefix}{self.item.code}", self.file.buffer, self.offset)[0]
        return scalar != 0 if self.item.name == "bool" else scalar

    @property
    def _prefix(self) -> str:
        return "<" if self.order == "little" else ">"

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(f"{self._prefix}{self.item.code}")

    def _strings(self) -> list[str | bytes]:
        unpack, buffer = struct.Struct(f"{self._prefix}Q").unpack_from, self.file.buffer
        found: list[str | bytes] = []
        at = self.offset
        for _ in range(self.count):
            start = at + 8
            at = start + unpack(buffer, at)[0]
            raw = buffer[start:at]
            try:
                found.append(raw.decode("utf-8"))
            except UnicodeDecodeError:
                found.append(raw)
        return found


def read_metadata(cursor: Cursor, count: int) -> dict[str, GgufValue]:
    """The `count` pairs at the cursor, which is left behind the last of them. Keys in file order."""
    found: dict[str, GgufValue] = {}
    for index in range(count):
        key_at = cursor.position
        raw_key = cursor.string(f"kv[{index}].key", MAX_KEY_BYTES, "the format's limit for keys")
        key = text_of(raw_key)
        if not key:
            raise cursor.bad(f"kv[{index}].key", key_at, "an empty key", "a name")
        if b"\0" in raw_key:
            raise cursor.bad(
                f"kv[{index}].key", key_at, raw_key, "a key without NUL bytes",
                hint="engines written in C cut the key there, and take it for another one",
            )  # fmt: skip
        if key in found:
            raise cursor.bad(
                f"kv[{index}].key",
                key_at,
                f"{key} again",
                "a key that occurs once",
                hint=f"first at kv[{found[key].index}]",
            )
        found[key] = _read_value(cursor, index, key)
    return found


def _read_value(cursor: Cursor, index: int, key: str) -> GgufValue:
    place = f"kv[{index}] {key}"
    item = _read_type(cursor, f"{place} type")
    is_array, count, count_at = item is ARRAY, 1, cursor.position
    if is_array:
        item_at = cursor.position
        item = _read_type(cursor, f"{place} item type")
        if item is ARRAY:
            raise cursor.bad(
                f"{place} item type", item_at, "9 (an array of arrays)", "a type of single values",
                hint="no engine reads nested arrays",
            )  # fmt: skip
        count_at = cursor.position
        count = cursor.u64(f"{place} count")
        if count * (item.size or 8) > cursor.remaining:
            raise cursor.bad(
                f"{place} count",
                count_at,
                f"{count} items of {item.name}",
                f"at most {cursor.remaining // (item.size or 8)}: {cursor.remaining} bytes remain in the file",
            )
        if count > MAX_ARRAY_ITEMS:
            raise cursor.bad(
                f"{place} count", count_at, count, f"at most {MAX_ARRAY_ITEMS} (the engine's limit)"
            )
    start = cursor.position
    if item is not STRING:
        cursor.skip(count * item.size, place, item.name)
    elif is_array:
        cursor.skip_strings(count, place, count_at)
    else:
        cursor.skip_string(place, MAX_STRING_BYTES, "the engine's limit")
    return GgufValue(
        key=key, index=index, item=item, is_array=is_array, count=count, offset=start,
        nbytes=cursor.position - start, file=cursor.file, order=cursor.order,
    )  # fmt: skip


def _read_type(cursor: Cursor, place: str) -> ValueType:
    at = cursor.position
    type_id = cursor.u32(place)
    known = VALUE_TYPES.get(type_id)
    if known is None:
        names = ", ".join(f"{row.type_id} {row.name}" for row in VALUE_TYPES.values())
        raise cursor.bad(place, at, type_id, f"a metadata type: {names}")
    return known
