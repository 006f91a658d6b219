"""Files of random contents with one thing changed: the pieces that the kinds of `gguf_kinds.py` are made of.

Where upstream damages every pair or tensor of a file, one at random is damaged here, so that a check of the first
alone would show.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cases.ggml.gguf_contents import (
    KEYS,
    TENSORS,
    Kv,
    random_kvs,
    random_tensor,
    random_tensors,
)
from harness.containers.ggml_types import ggml_types
from harness.containers.tests import gguf_bytes as g
from harness.containers.tests.gguf_bytes import Laid, Tensor

F32, Q4_0, I8, I64, NVFP4 = 0, 2, 24, 27, 40


@dataclass(frozen=True)
class Made:
    """A file, the index of the damaged pair or tensor, and the offset of the damaged field, each None where there is none.

    `has_data`: it goes on to the data section, and the engine is asked to load that.
    """

    laid: Laid
    index: int | None = None
    at: int | None = None
    has_data: bool = False


Rng = np.random.Generator
Make = Callable[[Rng], Made]


def with_header(change: Callable[[Laid], int | None]) -> Make:
    """A header alone, changed; the change says at which offset."""

    def make(_rng: Rng) -> Made:
        laid = g.lay([], [])
        laid.pad(32)
        return Made(laid, None, change(laid))

    return make


def header_field(label: str, code: str, value: int) -> Make:
    def change(laid: Laid) -> int:
        laid.set(label, code, value)
        return laid.at[label]

    return with_header(change)


def with_metadata(change: Callable[[list[Kv], int], None], field: str = "kv[{i}]", beyond: int = 0) -> Make:
    """Header and metadata, with the pair at a random index changed. The fault lies `beyond` bytes behind the field."""

    def make(rng: Rng) -> Made:
        kvs, index = random_kvs(rng), int(rng.integers(1, KEYS - 1))
        change(kvs, index)
        laid = g.lay(kvs, [])
        laid.pad(32)
        return Made(laid, index, laid.at[field.format(i=index)] + beyond)

    return make


def metadata_field(label: str, code: str, value: int) -> Make:
    """Header and metadata, with a number of the pair at a random index changed."""

    def make(rng: Rng) -> Made:
        made = with_metadata(lambda kvs, i: None, label)(rng)
        struct.pack_into(f"<{code}", made.laid.data, made.at or 0, value)
        return made

    return make


def with_value(kind: int, payload: bytes, beyond: int = 0) -> Make:
    """The pair's value replaced: the fault is `beyond` bytes behind the beginning of the value."""

    def change(kvs: list[Kv], i: int) -> None:
        kvs[i] = (kvs[i][0], kind, payload)

    return with_metadata(change, beyond=beyond)


def with_key(key: Callable[[list[Kv], int], bytes]) -> Make:
    def change(kvs: list[Kv], i: int) -> None:
        kvs[i] = (key(kvs, i), *kvs[i][1:])

    return with_metadata(change, "kv[{i}].key")


def with_pair(name: bytes, kind: int, payload: bytes, *, field: str = "kv[{i}]") -> Make:
    """The pair replaced as a whole."""

    def change(kvs: list[Kv], i: int) -> None:
        kvs[i] = (name, kind, payload)

    return with_metadata(change, field)


def with_infos(
    change: Callable[[list[Tensor], int, Rng], None] = lambda tensors, i, rng: None,
    field: str | None = "tensor_infos[{i}].offset",
    *,
    data: bool = False,
    more: tuple[Kv, ...] = (),
    alignment: int = 32,
    after: Callable[[Laid, int], None] = lambda laid, i: None,
) -> Make:
    """Header, metadata and tensor infos (and their data, if `data`), with the tensor at a random index changed."""

    def make(rng: Rng) -> Made:
        kvs, tensors, index = random_kvs(rng), random_tensors(rng), int(rng.integers(1, TENSORS - 1))
        change(tensors, index, rng)
        laid = g.lay([*kvs, *more], tensors, alignment=alignment)
        if not data:
            del laid.data[laid.at["infos_end"] :]
            laid.pad(alignment)
        after(laid, index)
        at = None if field is None else laid.at[field.format(i=index, key=len(kvs))]
        return Made(laid, index if field is None or "{i}" in field else len(kvs), at, data)

    return make


def infos_field(label: str, code: str, value: int, *, data: bool = False) -> Make:
    """A number of the tensor info at a random index changed."""
    return with_infos(field=label, data=data, after=lambda laid, i: laid.set(label.format(i=i), code, value))


def with_tensor(tensor: Tensor | Callable[[bytes], Tensor], field: str | None, *, data: bool = False) -> Make:
    """The tensor at a random index replaced."""

    def change(tensors: list[Tensor], i: int, _rng: Rng) -> None:
        tensors[i] = tensor(tensors[i].name) if callable(tensor) else tensor

    return with_infos(change, field, data=data)


def claiming(type_id: int, dims: tuple[int, ...]) -> Callable[[bytes], Tensor]:
    """A tensor that claims a shape and has no data."""
    return lambda name: Tensor(name, dims, type_id, b"")


def duplicate_name(tensors: list[Tensor], i: int, _rng: Rng) -> None:
    tensors[i] = replace(tensors[i], name=tensors[i - 1].name)


def all_empty(tensors: list[Tensor], _i: int, _rng: Rng) -> None:
    tensors[:] = [Tensor(t.name, (t.dims[0], 0), t.type_id, b"") for t in tensors]


def inconsistent_alignment(data: bool) -> Make:
    """Offsets that follow one another without padding, in a file that does not state an alignment."""

    def make(rng: Rng) -> Made:
        kvs, tensors = random_kvs(rng), random_tensors(rng)
        laid = g.lay(kvs, tensors, alignment=1)
        index = 1 + next(i for i, tensor in enumerate(tensors) if len(tensor.data) % 32)
        if not data:
            del laid.data[laid.at["infos_end"] :]
            laid.pad(32)
        return Made(laid, index, laid.at[f"tensor_infos[{index}].offset"], data)

    return make


def last_tensor(nbytes: int, gone: int) -> Make:
    """A file whose last tensor has `nbytes` bytes, and that ends `gone` bytes before the end of its padding."""

    def make(rng: Rng) -> Made:
        kvs, tensors = random_kvs(rng), random_tensors(rng)
        tensors[-1] = Tensor(tensors[-1].name, (nbytes,), I8, rng.bytes(nbytes))
        laid = g.lay(kvs, tensors)
        del laid.data[len(laid.data) - gone :]
        return Made(laid, TENSORS - 1, laid.at[f"data[{TENSORS - 1}]"], True)

    return make


def two_of_half_the_address_space(_rng: Rng) -> Made:
    huge = 0x7FFFFFFFFFFFFFC0
    laid = g.lay([], [Tensor(b"my_tensor_0", (huge,), I8, b""), Tensor(b"my_tensor_1", (huge,), I8, b"")])
    laid.set("tensor_infos[1].offset", "Q", huge)
    laid.pad(32)
    laid.data += bytes(32)
    return Made(laid, 0, laid.at["data[0]"], True)


def more_bytes_than_exist(tensors: list[Tensor], i: int, _rng: Rng) -> None:
    side = int(1.01 * (2**64 / 8) ** 0.5) + 1
    tensors[i] = Tensor(tensors[i].name, (side, side), I64, b"")


def small_file(
    order: str = "<", version: int = 3, change: Callable[[Laid], None] = lambda laid: None
) -> Make:
    """A small valid file of fixed contents, in a byte order and version, changed afterwards."""

    def make(_rng: Rng) -> Made:
        kvs: list[Kv] = [(b"general.architecture", g.STR, g.text(b"llama", order))]
        tensors = [
            Tensor(b"a", (8, 2), F32, np.arange(16, dtype=f"{order}f4").tobytes()),
            Tensor(b"b", (5,), I8, bytes(5)),
        ]
        laid = g.lay(kvs, tensors, order=order, version=version)
        change(laid)
        return Made(laid, None, None, True)

    return make


def first_version(_rng: Rng) -> Made:
    """Version 1 as it was: 32-bit counts and lengths."""
    laid = Laid(
        data=bytearray(b"GGUF" + struct.pack("<IIII", 1, 0, 1, 1) + b"k" + struct.pack("<IB", g.U8, 1))
    )
    laid.pad(32)
    return Made(laid, None, 4)


def counting(delta: int) -> Make:
    """A complete file whose tensor count is off by `delta`."""

    def make(rng: Rng) -> Made:
        made = with_infos(data=True)(rng)
        made.laid.set("tensor_count", "Q", TENSORS + delta)
        return replace(made, index=None, at=made.laid.at["tensor_count"])

    return make


def side_tensors(tensors: list[Tensor], i: int, rng: Rng) -> None:
    weight = random_tensor(rng, b"blk.0.ffn_up.weight", ggml_types()[NVFP4])
    one = struct.pack("<f", 0.5)
    tensors[i : i + 3] = [
        weight,
        Tensor(b"blk.0.ffn_up.scale", (1,), F32, one),
        Tensor(b"blk.0.ffn_up.input_scale", (1,), F32, one),
    ]


def magic(laid: Laid) -> int:
    laid.data[:4] = b"FUGG"
    return 0
