"""GGUF files with random contents, laid out byte by byte: metadata of every type and tensors of every type in each.

Nothing here comes from the project's own writer, and sizes of value types are stated again: the reader and the writer
are what is tried. The contents are upstream's in kind and number: 100 keys, 100 tensors of 1 to 10 blocks in a row and
1 to 4 dimensions (of 1 to 4 here, where upstream has up to 10: a file stays below a megabyte).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from harness.containers.ggml_types import GgmlType, ggml_types
from harness.containers.tests import gguf_bytes as g
from harness.containers.tests.gguf_bytes import Tensor

KEYS = 100
TENSORS = 100

ITEM_BYTES = {
    g.U8: 1, g.I8: 1, g.U16: 2, g.I16: 2, g.U32: 4, g.I32: 4, g.F32: 4, g.BOOL: 1, g.U64: 8, g.I64: 8, g.F64: 8,
}  # fmt: skip
ARRAY_BYTES = 64
ARRAY_STRINGS = 16

Kv = tuple[bytes, int, bytes]
"""Key, value type, and the value as it stands behind its type."""


def random_kvs(rng: np.random.Generator, prefix: str = "my_key", count: int = KEYS) -> list[Kv]:
    """`count` pairs, of every type and of arrays of every type at least once when there are 24 or more."""
    kinds: list[tuple[int, int | None]] = [(kind, None) for kind in (*ITEM_BYTES, g.STR)]
    kinds += [(g.ARR, item) for item in (*ITEM_BYTES, g.STR)]
    drawn = [kinds[i] for i in rng.integers(len(kinds), size=max(0, count - len(kinds)))]
    order = rng.permutation(count)
    chosen = (kinds + drawn)[:count]
    return [(f"{prefix}_{i}".encode(), *_value(rng, *chosen[int(place)])) for i, place in enumerate(order)]


def random_tensors(rng: np.random.Generator, count: int = TENSORS) -> list[Tensor]:
    """`count` tensors named `my_tensor_<i>`, of every type that a file may hold when there are as many."""
    live = list(ggml_types().values())
    drawn = [live[i] for i in rng.integers(len(live), size=max(0, count - len(live)))]
    order = rng.permutation(count)
    chosen = (live + drawn)[:count]
    return [
        random_tensor(rng, f"my_tensor_{i}".encode(), chosen[int(place)]) for i, place in enumerate(order)
    ]


def random_tensor(rng: np.random.Generator, name: bytes, kind: GgmlType) -> Tensor:
    """A tensor of random bytes and of 1 to 4 dimensions."""
    others = rng.integers(1, 5, size=int(rng.integers(4)))
    dims = (int(rng.integers(1, 11)) * kind.block_elems, *map(int, others))
    return Tensor(name, dims, kind.type_id, rng.bytes(nbytes_of(kind, dims)))


def nbytes_of(kind: GgmlType, dims: Sequence[int]) -> int:
    """Bytes of a tensor, `dims` in the file's order."""
    elements = 1
    for size in dims:
        elements *= size
    return elements // kind.block_elems * kind.block_bytes


def kv(key: bytes, kind: int, code: str, value: int) -> Kv:
    """A pair whose value is one number."""
    return key, kind, struct.pack(f"<{code}", value)


def _value(rng: np.random.Generator, kind: int, item: int | None) -> tuple[int, bytes]:
    if kind == g.STR:
        return kind, g.text(_letters(rng, 63))
    if item is None:
        return kind, rng.bytes(ITEM_BYTES[kind])
    if item == g.STR:
        strings = [g.text(_letters(rng, 4)) for _ in range(int(rng.integers(ARRAY_STRINGS + 1)))]
        return kind, g.array(item, len(strings), b"".join(strings))
    count = int(rng.integers(ARRAY_BYTES)) // ITEM_BYTES[item]
    return kind, g.array(item, count, rng.bytes(count * ITEM_BYTES[item]))


def _letters(rng: np.random.Generator, most: int) -> bytes:
    """Up to `most` bytes of any kind but NUL, which ends a string for the engine's C interface."""
    return rng.integers(1, 256, size=int(rng.integers(most + 1))).astype(np.uint8).tobytes()
