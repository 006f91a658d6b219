"""What a GGUF file holds, as named fields that readings can be compared by: ours and the engine's, values and data included.

A value is the bytes that it has in a file, encoded again from what was decoded, in the form of the engine's worker; every
NaN is one NaN, since a scalar's payload does not survive Python's floats. Offsets count from the first tensor.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cases.ggml.container import our_reading, their_reading
from harness.containers import Checkpoint, open_checkpoint
from harness.containers.gguf_format import VALUE_TYPES_BY_NAME
from harness.containers.gguf_write import TensorData, Typed

SHOWN_BYTES = 64
FLOATS = {"f32": "<f", "f64": "<d"}

Fields = dict[str, object]


def ours(path: Path, *, data: bool = True) -> Fields:
    """Everything that we read. Raises BadInput."""
    fields = our_reading(path)
    with open_checkpoint(path) as checkpoint:
        for key, entry in checkpoint.metadata.items():
            fields[f"key {key}.value"] = _shown(entry.type_name, _encoded(entry.type_name, entry.value()))
        for tensor in checkpoint.tensors if data else ():
            raw = checkpoint.tensor_bytes(tensor.name)
            fields[f"tensor {tensor.name}.sha256"] = hashlib.sha256(raw.tobytes()).hexdigest()
    return comparable(fields)


def engines(answer: Mapping[str, Any]) -> Fields:
    """The same fields from an answer to `gguf_open`. Raises ValueError, with the engine's words, when it refuses the file."""
    if not answer["accepted"]:
        raise ValueError(f"the engine refuses the file: {' / '.join(answer['log'])}")
    fields = their_reading(answer)
    for entry in answer["keys"]:
        kind = f"{entry['element']}[]" if "element" in entry else entry["type"]
        value = entry["value"]
        few = not value.startswith("sha256:")
        fields[f"key {entry['key']}.value"] = _shown(kind, bytes.fromhex(value)) if few else value
    for tensor in answer["tensors"]:
        if "sha256" in tensor:
            fields[f"tensor {tensor['name']}.sha256"] = tensor["sha256"]
    return comparable(fields)


def metadata_of(checkpoint: Checkpoint) -> dict[str, Typed]:
    """Every pair as `write_gguf` takes it."""
    return {
        key: Typed(entry.type_name.removesuffix("[]"), entry.value())
        for key, entry in checkpoint.metadata.items()
    }


def tensors_of(checkpoint: Checkpoint) -> list[TensorData]:
    """Every tensor as `write_gguf` takes it."""
    return [
        TensorData(info.name, info.type_id or 0, info.shape, checkpoint.tensor_bytes(info.name))
        for info in checkpoint.tensors
    ]


def comparable(fields: Fields) -> Fields:
    """The fields without what only seems to differ.

    Files of the same contents may begin their data elsewhere: the engine leaves out trailing dimensions of size 1. And
    an encoding is a name for a type's number, which oracles also give to types that nobody decodes. The engine has no
    scalars: one element in no dimension is one in one.
    """
    kept = {name: value for name, value in fields.items() if not name.endswith(".encoding")}
    offsets = {name: value for name, value in kept.items() if name.endswith(".offset")}
    first = min((value for value in offsets.values() if isinstance(value, int)), default=0)
    scalars = {name: [1] for name, value in kept.items() if name.endswith(".shape") and value == []}
    return kept | scalars | {name: at - first for name, at in offsets.items() if isinstance(at, int)}


def _encoded(type_name: str, value: Any) -> bytes:
    kind = VALUE_TYPES_BY_NAME[type_name.removesuffix("[]")]
    if kind.name == "str":
        items = value if isinstance(value, list) else [value]
        raws = [item.encode() if isinstance(item, str) else item for item in items]
        return b"".join(struct.pack("<Q", len(raw)) + raw for raw in raws)
    if isinstance(value, np.ndarray):
        return value.astype(np.dtype(f"<{kind.code}")).tobytes()
    return struct.pack(f"<{kind.code}", value)


def _shown(type_name: str, raw: bytes) -> str:
    if type_name in FLOATS and math.isnan(struct.unpack(FLOATS[type_name], raw)[0]):
        return "nan"
    return raw.hex() if len(raw) <= SHOWN_BYTES else f"sha256:{hashlib.sha256(raw).hexdigest()}"
