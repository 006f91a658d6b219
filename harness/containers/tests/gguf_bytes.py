"""GGUF bytes laid out by hand, field by field, with each field's offset: independent of the project's own writer."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)


@dataclass
class Laid:
    """The bytes of a file and where its fields begin, by the names that errors use."""

    order: str = "<"
    data: bytearray = field(default_factory=bytearray)
    at: dict[str, int] = field(default_factory=dict)

    def put(self, name: str, code: str, value: int) -> None:
        self.at[name] = len(self.data)
        self.data += struct.pack(self.order + code, value)

    def string(self, name: str, raw: bytes) -> None:
        self.put(name, "Q", len(raw))
        self.data += raw

    def set(self, name: str, code: str, value: int) -> None:
        struct.pack_into(self.order + code, self.data, self.at[name], value)

    def pad(self, alignment: int) -> None:
        self.data += bytes(-len(self.data) % alignment)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.data)
        return path


def text(raw: bytes, order: str = "<") -> bytes:
    """A string as it stands in a file."""
    return struct.pack(order + "Q", len(raw)) + raw


def array(item_type: int, count: int, items: bytes, order: str = "<") -> bytes:
    """An array's item type, count and items."""
    return struct.pack(order + "IQ", item_type, count) + items


@dataclass(frozen=True)
class Tensor:
    """`dims` in the file's order: the contiguous one first."""

    name: bytes
    dims: tuple[int, ...]
    type_id: int
    data: bytes


KVS: list[tuple[bytes, int, bytes]] = [
    (b"general.architecture", STR, text(b"llama")),
    (b"general.alignment", U32, struct.pack("<I", 32)),
    (b"llama.block_count", U32, struct.pack("<I", 2)),
    (b"tokenizer.ggml.tokens", ARR, array(STR, 3, text(b"<s>") + text(b"a") + text(b"\xc3\xa9"))),
    (b"tokenizer.ggml.scores", ARR, array(F32, 2, struct.pack("<2f", 0.5, -1.0))),
]
TENSORS = [
    Tensor(b"token_embd.weight", (8, 4), 0, bytes(range(128))),
    Tensor(b"blk.0.attn_q.weight", (64, 3), 2, bytes(range(108))),
    Tensor(b"output_norm.weight", (8,), 0, bytes(range(100, 132))),
]


def lay(
    kvs: list[tuple[bytes, int, bytes]] | None = None,
    tensors: list[Tensor] | None = None,
    *,
    version: int = 3,
    order: str = "<",
    alignment: int = 32,
) -> Laid:
    """A valid file, unless what is given makes it something else."""
    kvs = KVS if kvs is None else kvs
    tensors = TENSORS if tensors is None else tensors
    laid = Laid(order)
    laid.data += b"GGUF"
    laid.put("version", "I", version)
    laid.put("tensor_count", "Q", len(tensors))
    laid.put("kv_count", "Q", len(kvs))
    for i, (key, type_id, payload) in enumerate(kvs):
        laid.string(f"kv[{i}].key", key)
        laid.put(f"kv[{i}].type", "I", type_id)
        laid.at[f"kv[{i}]"] = len(laid.data)
        laid.data += payload
    start = 0
    for i, tensor in enumerate(tensors):
        here = f"tensor_infos[{i}]"
        laid.string(f"{here}.name", tensor.name)
        laid.put(f"{here}.n_dims", "I", len(tensor.dims))
        for axis, size in enumerate(tensor.dims):
            laid.put(f"{here}.dims[{axis}]", "Q", size)
        laid.put(f"{here}.type", "I", tensor.type_id)
        laid.put(f"{here}.offset", "Q", start)
        start += len(tensor.data) + -len(tensor.data) % alignment
    laid.at["infos_end"] = len(laid.data)
    for i, tensor in enumerate(tensors):
        laid.pad(alignment)
        laid.at[f"data[{i}]"] = len(laid.data)
        laid.data += tensor.data
    if tensors:
        laid.pad(alignment)
    return laid
