"""Families of container cases: generated GGUF files that hold one encoding, read by us and by every oracle that reads them."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cases.generators import ordinary_blocks
from cases.ggml.decode import ENCODINGS
from cases.ggml.family import rows_of
from harness.containers import open_checkpoint
from harness.containers.gguf_write import TensorData, write_gguf
from harness.evidence.case import Family
from harness.rows.load import row
from harness.rows.model import Dimension
from kernels.units import Unit, encoded_bytes, unit

NAME = "blk.0.attn_q.weight"
METADATA = {"general.architecture": "llama", "llama.block_count": 1, "tokenizer.ggml.tokens": ["<s>", "a"]}

Shape = Callable[[int], tuple[int, ...]]


@dataclass(frozen=True)
class Layout:
    """How a file holds the encoding: `shape` from the elements of a block, and what surrounds the tensor."""

    shape: Shape
    version: int = 3
    alignment: int = 32
    others: bool = False


LAYOUTS: Mapping[str, Layout] = {
    "one_block": Layout(lambda block: (block,)),
    "matrix": Layout(lambda block: (3, 2 * block)),
    "four_dimensions": Layout(lambda block: (2, 3, 5, block)),
    "between_others": Layout(lambda block: (5, block), others=True),
    "wide_alignment": Layout(lambda block: (3, block), alignment=256, others=True),
    "version_2": Layout(lambda block: (2, block), version=2),
}

FAULTS: Mapping[str, tuple[str, ...]] = {
    "row_not_whole_blocks": ("llama_cpp.ops", "formats"),
    "data_cut_short": ("formats",),
    "header_cut_short": ("llama_cpp.ops", "formats"),
}
"""What is wrong with a file -> who can say so. llama.cpp is asked for its reading of the header alone: it never looks
at the data, and has no opinion about a file that ends in it."""

UNKNOWN_TYPES: Mapping[str, frozenset[str]] = {"formats": frozenset({"ggml.q2_0"})}
"""Encodings whose type number an oracle has never heard of: gguf-py 0.19.0 ends at 41."""


def can_read(reader: str, encoding: str) -> bool:
    """Whether an oracle has an opinion about files that hold the encoding."""
    return encoding not in UNKNOWN_TYPES.get(reader, ())


def holdable() -> tuple[str, ...]:
    """The encodings that a file may hold: their rows have a cell for reading them."""
    return tuple(
        name
        for name in ENCODINGS
        if all(row(owner).coverage(Dimension.RECOGNIZE).applies for owner in rows_of(name))
    )


def write_layout(path: Path, found: Unit, layout: Layout, seed: int) -> None:
    """A file that holds `found` in this layout."""
    shape = layout.shape(found.block_elems)
    rng = np.random.default_rng(seed)
    blocks = encoded_bytes(found, shape) // found.block_bytes
    tensor = TensorData(NAME, found.container_ids["gguf"], shape, ordinary_blocks(found, blocks, rng))
    tensors = [tensor]
    if layout.others:
        plain = np.ones(7, "<f4")
        tensors = [TensorData("before", 0, (7,), plain), tensor, TensorData("after", 0, (1, 7), plain)]
    write_gguf(path, METADATA, tensors, version=layout.version, alignment=layout.alignment)


def write_fault(path: Path, found: Unit, fault: str, seed: int) -> None:
    """A file that holds `found` and cannot be read."""
    layout = LAYOUTS["matrix"]
    write_layout(path, found, layout, seed)
    raw = path.read_bytes()
    info_at = raw.index(NAME.encode()) + len(NAME)
    if fault == "row_not_whole_blocks":
        columns_at = info_at + 4
        columns = layout.shape(found.block_elems)[-1] - 1
        raw = raw[:columns_at] + struct.pack("<Q", columns) + raw[columns_at + 8 :]
    elif fault == "data_cut_short":
        shape = layout.shape(found.block_elems)
        padding = -encoded_bytes(found, shape) % layout.alignment
        raw = raw[: len(raw) - padding - 1]
    else:
        raw = raw[: info_at + 4]
    path.write_bytes(raw)


def our_reading(path: Path) -> dict[str, object]:
    """Every field that we read, by a name that says where it is. Raises BadInput."""
    with open_checkpoint(path) as checkpoint:
        fields: dict[str, object] = {"version": checkpoint.version}
        for entry in checkpoint.metadata.values():
            array = entry.type_name.endswith("[]")
            fields[f"key {entry.key}"] = (entry.type_name, entry.count if array else 1)
        for tensor in checkpoint.tensors:
            fields |= _tensor(
                tensor.name, tensor.encoding, tensor.type_id, tensor.shape, tensor.offset, tensor.nbytes
            )
    return fields


def their_reading(description: Mapping[str, Any]) -> dict[str, object]:
    """The same fields from an oracle's `describe`."""
    fields: dict[str, object] = {"version": str(description["version"])}
    for entry in description["keys"]:
        array = "element" in entry
        kind = f"{entry['element']}[]" if array else entry["type"]
        fields[f"key {entry['key']}"] = (kind, entry["count"] if array else 1)
    for tensor in description["tensors"]:
        offset = description["data_offset"] + tensor["offset"]
        fields |= _tensor(
            tensor["name"], tensor["encoding"], tensor["type_id"], tensor["shape"], offset, tensor["nbytes"]
        )
    return fields


def _tensor(
    name: str, encoding: str | None, type_id: int | None, shape: Any, offset: int, nbytes: int
) -> dict[str, object]:
    kept = [int(size) for size in shape]
    while len(kept) > 1 and kept[0] == 1:  # engines forget leading dimensions of size 1
        kept.pop(0)
    values = {"encoding": encoding, "type": type_id, "shape": kept, "offset": offset, "bytes": nbytes}
    return {f"tensor {name}.{field}": value for field, value in values.items()}


def _cannot_be(chosen: Mapping[str, str]) -> str | None:
    encoding, fault = chosen["encoding"], chosen["fault"]
    if unit(encoding).block_elems == 1 and fault == "row_not_whole_blocks":
        return "every row is whole"
    return None if any(can_read(name, encoding) for name in FAULTS[fault]) else "nobody can say so"


_FILES = (Path(__file__), Path(__file__).parent / "test_container_cases.py")

_file = functools.partial(
    Family,
    op="recognize",
    dimension=Dimension.RECOGNIZE,
    backends=("cpu",),
    encodings=holdable(),
    rows=rows_of,
    bound="the same fields",
    files=_FILES,
)
READ = _file(name="ggml.container", axes={"layout": tuple(LAYOUTS)})
REFUSED = _file(name="ggml.container_refused", axes={"fault": tuple(FAULTS)}, refuse=_cannot_be)
