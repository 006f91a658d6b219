"""The encodings we know: byte geometry, decode formula, rows and ops, read from each unit's `unit.yaml`.

A unit is a folder `kernels/<dialect>/<name>/`. It is found by its directory and read without importing any of its code.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic import ConfigDict, StrictBool, StrictInt, TypeAdapter, ValidationError

from harness.errors import BadInput, UsageProblem
from harness.paths import KERNELS
from harness.rows.strict_yaml import read_mapping

TYPE_BYTES = {
    "u8": 1,
    "i8": 1,
    "u16": 2,
    "i16": 2,
    "u32": 4,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "e8m0": 1,
    "ue4m3": 1,
}
"""Bytes of one item of a field, by type; all little-endian."""

Role = Literal[
    "scale", "min", "sub_scale", "sub_scale_and_scale", "code", "code_high", "index", "sign", "value", "sum"
]
"""What a field is for. `scale` and `min` are floating point; `sub_scale` holds packed integers that multiply them,
`sub_scale_and_scale` such integers and a half-precision scale in the upper nibbles of its words; `code` and `code_high`
are the low and high bits of the quantized values, `index` those of a position in a table, `sign` of signs; `value` is
stored as it is decoded; `sum` repeats what the codes say already."""

_CLOSED = ConfigDict(extra="forbid")
_Positive = Annotated[StrictInt, pydantic.Field(gt=0)]
_Natural = Annotated[StrictInt, pydantic.Field(ge=0)]


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a block: `count` items of `type` at byte `offset`, `bytes` in all.

    `bits` is how many bits of each code the field holds, where every byte is packed alike (None where it is not).
    """

    __pydantic_config__ = _CLOSED
    name: str
    offset: _Natural
    bytes: _Positive
    type: str
    count: _Positive
    role: Role
    meaning: str
    bits: _Positive | None = None


@dataclasses.dataclass(frozen=True)
class Unit:
    """One encoding. `block_elems` weights, consecutive along the last dimension, are stored in `block_bytes` bytes.

    `exact`: the decode is defined bit by bit, so that a comparison allows no error. `activation` is the encoding that
    the engine's dot product wants of the other operand. `tables` names the arrays that the decode looks values up in:
    keyword of `decode` -> table of the dialect. `ops` lists our backends by op.
    """

    __pydantic_config__ = _CLOSED
    encoding: str
    dialect: str
    name: str
    path: Path
    title: str
    docs: str
    block_elems: _Positive
    block_bytes: _Positive
    fields: tuple[Field, ...]
    formula: str
    exact: StrictBool
    source: str
    rows: tuple[str, ...]
    ops: dict[str, tuple[str, ...]] = dataclasses.field(hash=False)
    container_ids: dict[str, _Natural] = dataclasses.field(default_factory=dict, hash=False)
    activation: str | None = None
    tables: dict[str, str] = dataclasses.field(default_factory=dict, hash=False)
    notes: str = ""

    @property
    def bits_per_weight(self) -> float:
        """Storage bits of one weight, scales included."""
        return 8 * self.block_bytes / self.block_elems


_FROM_DIRECTORY = ("encoding", "dialect", "name", "path")


@lru_cache(maxsize=1)
def _schema() -> TypeAdapter[Unit]:
    return TypeAdapter(Unit)


def load_units(root: Path = KERNELS) -> dict[str, Unit]:
    """All units below `root` by encoding, in the order of their names.

    Raises BadInput that names the file and the field of the first unit that is not as the schema wants it.
    """
    return dict(_load(root))


@lru_cache(maxsize=8)
def _load(root: Path) -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    owners: dict[tuple[str, int], Unit] = {}
    for file in sorted(root.glob("*/*/unit.yaml")):
        found = read_unit(file)
        units[found.encoding] = found
        for item in found.container_ids.items():
            other = owners.setdefault(item, found)
            if other is not found:
                raise BadInput(
                    file=file,
                    field=f"container_ids.{item[0]}",
                    got=item[1],
                    wanted=f"an id that no other unit has; {other.encoding} has it",
                )
    return units


def read_unit(file: Path) -> Unit:
    """The unit that `file` describes. Raises BadInput naming the field that is wrong."""
    document = read_mapping(file)
    for key in _FROM_DIRECTORY:
        if key in document:
            raise BadInput(file=file, field=key, got=document[key], wanted="nothing: the folder says it")
    dialect, name = file.parent.parent.name, file.parent.name
    derived = {"encoding": f"{dialect}.{name}", "dialect": dialect, "name": name, "path": file.parent}
    try:
        found = _schema().validate_python(document | derived)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        got = "nothing" if first["type"] == "missing" else first["input"]
        raise BadInput(file=file, field=where, got=got, wanted=first["msg"]) from None
    _check_geometry(file, found)
    return found


def _check_geometry(file: Path, found: Unit) -> None:
    """The fields follow one another and fill the block: no gap, no overlap, no byte left."""
    end = 0
    for position, field in enumerate(found.fields):
        where = f"fields.{position} ({field.name})"
        size = TYPE_BYTES.get(field.type)
        if size is None:
            raise BadInput(
                file=file,
                field=f"{where}.type",
                got=field.type,
                wanted=f"one of {', '.join(TYPE_BYTES)}",
            )
        if field.bytes != size * field.count:
            raise BadInput(
                file=file,
                field=f"{where}.bytes",
                got=field.bytes,
                wanted=f"{size * field.count}: {field.count} x {field.type}",
            )
        if field.offset != end:
            raise BadInput(
                file=file,
                field=f"{where}.offset",
                got=field.offset,
                wanted=f"{end}, where the field before it ends",
            )
        end += field.bytes
    if end != found.block_bytes:
        raise BadInput(
            file=file, field="block_bytes", got=found.block_bytes, wanted=f"{end}, the sum of the fields"
        )
    if len({field.name for field in found.fields}) != len(found.fields):
        raise BadInput(file=file, field="fields", got="a name twice", wanted="different names")


def unit(encoding: str) -> Unit:
    """The unit of `encoding` (`ggml.q4_k`). Raises UsageProblem with the nearest names when there is none."""
    units = _load(KERNELS)
    if encoding in units:
        return units[encoding]
    near = difflib.get_close_matches(encoding.lower(), units, n=3, cutoff=0.5)
    raise UsageProblem(
        f"unknown encoding {encoding!r}; "
        + (f"near: {', '.join(near)}" if near else f"known: {', '.join(units)}")
    )


def by_container_id(container: str, type_id: int) -> Unit | None:
    """The unit that `container` ("gguf") numbers `type_id`, or None."""
    for found in _load(KERNELS).values():
        if found.container_ids.get(container) == type_id:
            return found
    return None


def encoded_bytes(unit: Unit, shape: Sequence[int]) -> int:
    """Bytes that weights of `shape` (row-major, the last dimension contiguous) take in the encoding of `unit`.

    Raises UsageProblem when `shape` has no dimension, a negative one, or a last one that is no multiple of the block.
    """
    if not shape:
        raise UsageProblem(f"{unit.encoding}: shape (): wanted at least one dimension")
    if min(shape) < 0:
        raise UsageProblem(f"{unit.encoding}: shape {tuple(shape)}: a dimension is negative")
    if shape[-1] % unit.block_elems:
        raise UsageProblem(
            f"{unit.encoding}: shape {tuple(shape)}: the last dimension, {shape[-1]}, is not a multiple of the block"
            f" of {unit.block_elems} weights"
        )
    return math.prod(shape) // unit.block_elems * unit.block_bytes
