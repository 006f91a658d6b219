"""The type numbers of GGUF tensors: name, block size and encoding, read from `ggml_types.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

TABLE = Path(__file__).with_name("ggml_types.yaml")
_ENCODING_KINDS = frozenset({"float", "quantized", "activation"})


@dataclass(frozen=True, slots=True)
class GgmlType:
    """One type number. `encoding` is None for a type that has a size but no decode (integers, F64)."""

    type_id: int
    name: str
    block_elems: int
    block_bytes: int
    encoding: str | None


@dataclass(frozen=True, slots=True)
class RemovedType:
    """A type number that ggml gave up. `instead` says what such a file has to be made as."""

    type_id: int
    name: str
    instead: str


@cache
def _tables() -> tuple[dict[int, GgmlType], dict[int, RemovedType]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data = yaml.load(TABLE.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - both are safe loaders
    types = {
        row["id"]: GgmlType(
            type_id=row["id"],
            name=row["name"],
            block_elems=row["block"][0],
            block_bytes=row["block"][1],
            encoding=f"ggml.{row['name'].lower()}" if row["kind"] in _ENCODING_KINDS else None,
        )
        for row in data["types"]
    }
    removed = {row["id"]: RemovedType(row["id"], row["name"], row["instead"]) for row in data["removed"]}
    return types, removed


def ggml_types() -> dict[int, GgmlType]:
    """Every type number that a tensor may carry."""
    return _tables()[0]


def removed_types() -> dict[int, RemovedType]:
    """Every type number that was given up."""
    return _tables()[1]
