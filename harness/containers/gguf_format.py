"""Constants of the GGUF format, versions 2 and 3, and the limits that this reader adds.

Source of the facts: ggml's gguf.h and gguf.cpp. Versions 2 and 3 have the same layout; 3 allows big-endian files.
"""

from __future__ import annotations

from dataclasses import dataclass

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_BYTES = 24  # magic, u32 version, u64 tensor count, u64 key count
VERSION_AT, TENSOR_COUNT_AT, KV_COUNT_AT = 4, 8, 16

DEFAULT_ALIGNMENT = 32
ALIGNMENT_KEY = "general.alignment"
ARCHITECTURE_KEY = "general.architecture"

# The engine's limits.
MAX_DIMS = 4
MAX_NAME_BYTES = 63  # ggml keeps 64 bytes a name, one of them the terminator
MAX_STRING_BYTES = 1 << 30
MAX_ARRAY_ITEMS = 1 << 30
MAX_ELEMENTS = (1 << 63) - 1  # an element count must stay below this
MAX_TENSOR_BYTES = (1 << 63) - 1  # what a file offset can tell; the engine goes up to 2^64 less the padding

# Ours: what is indexed in memory while a file is opened stays bounded. The largest public models hold some 60 keys,
# 50,000 tensors and 260,000 tokens.
MAX_KEYS = 1 << 16
MAX_KEY_BYTES = (1 << 16) - 1  # the format's own rule, which the engine does not enforce
MAX_TENSORS = 1 << 18
MAX_STRING_ITEMS = 1 << 24

# The least that one entry can occupy, to refuse a count that the file cannot hold.
MIN_KV_BYTES = 8 + 1 + 4 + 1  # key length, a one-byte key, value type, a one-byte value
MIN_TENSOR_INFO_BYTES = 8 + 4 + 4 + 8  # name length, dimension count, type, offset


@dataclass(frozen=True, slots=True)
class ValueType:
    """A metadata type: `code` is its `struct` letter, `size` its bytes; 0 for strings and arrays."""

    type_id: int
    name: str
    code: str
    size: int


VALUE_TYPES = {
    row.type_id: row
    for row in (
        ValueType(0, "u8", "B", 1),
        ValueType(1, "i8", "b", 1),
        ValueType(2, "u16", "H", 2),
        ValueType(3, "i16", "h", 2),
        ValueType(4, "u32", "I", 4),
        ValueType(5, "i32", "i", 4),
        ValueType(6, "f32", "f", 4),
        ValueType(7, "bool", "B", 1),
        ValueType(8, "str", "", 0),
        ValueType(9, "arr", "", 0),
        ValueType(10, "u64", "Q", 8),
        ValueType(11, "i64", "q", 8),
        ValueType(12, "f64", "d", 8),
    )
}
VALUE_TYPES_BY_NAME = {row.name: row for row in VALUE_TYPES.values()}
STRING = VALUE_TYPES_BY_NAME["str"]
ARRAY = VALUE_TYPES_BY_NAME["arr"]


def padded(position: int, alignment: int) -> int:
    """`position` rounded up to the next multiple of `alignment`."""
    return -(-position // alignment) * alignment
