"""The shapes of models from `type_selection_models.yaml`: as what the selection reads, and as files for the engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from cases.upstream.layer_lists import layer_numbers
from harness.containers.ggml_types import ggml_types
from harness.containers.gguf_write import TensorData, Typed, tensor_nbytes, write_gguf
from harness.rows.strict_yaml import read_mapping, validated

DATA = Path(__file__).with_name("type_selection_models.yaml")
ROWS = STACK = 2


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Layers(_Strict):
    """Weights that stand in the same layers: columns -> their names, separated by blanks."""

    at: str
    columns: dict[int, str]
    stacked: bool = False


class Array(_Strict):
    """A key with one item a layer (`each`, and `there` in the layers `at`), or with these items."""

    each: int | bool | None = None
    at: str = ""
    there: int = 0
    items: tuple[int, ...] = ()


class Odd(_Strict):
    """A tensor out of the ordinary, by its whole name and row-major shape."""

    name: str
    shape: tuple[int, ...]
    encoding: str = "ggml.f16"


class Shapes(_Strict):
    """One model of the file."""

    architecture: str
    keys: dict[str, float | int]
    outside: dict[int, str]
    layers: tuple[Layers, ...]
    source: Literal["ours", "upstream"] = "ours"
    why: str = ""
    array_keys: dict[str, Array] = {}
    halves: tuple[str, ...] = ()
    odd: tuple[Odd, ...] = ()


class _File(_Strict):
    defaults: dict[str, dict[str, float | int]]
    models: dict[str, Shapes] = Field(min_length=1)


def shapes() -> dict[str, Shapes]:
    """Every model of the file by name. Raises BadInput naming the field that does not fit."""
    return _read().models


@cache
def _read() -> _File:
    return validated(_File, read_mapping(DATA), file=DATA)


def tensors_of(model: Shapes) -> Iterator[Odd]:
    """The tensors of a model, those outside its layers first."""
    for columns, names in model.outside.items():
        yield from (Odd(name=f"{name}.weight", shape=(ROWS, columns)) for name in names.split())
    prefixes = [f"{half}.blk" for half in model.halves] or ["blk"]
    for group in model.layers:
        for columns, names in group.columns.items():
            shape = (STACK, ROWS, columns) if group.stacked else (ROWS, columns)
            for layer in layer_numbers(group.at):
                for prefix in prefixes:
                    yield from (
                        Odd(name=f"{prefix}.{layer}.{name}.weight", shape=shape) for name in names.split()
                    )
    yield from model.odd


def metadata_of(model: Shapes) -> dict[str, Any]:
    """The keys that the file carries."""
    defaults = _read().defaults["keys"]
    keys: dict[str, Any] = {"general.architecture": model.architecture}
    keys |= {f"{model.architecture}.{name}": value for name, value in {**defaults, **model.keys}.items()}
    for name, array in model.array_keys.items():
        keys[f"{model.architecture}.{name}"] = _items(array, int(model.keys["block_count"]))
    return keys


def write_model(path: Path, model: Shapes) -> None:
    """A GGUF file of these shapes, whose weights are all zero."""
    ids = {kind.encoding: kind.type_id for kind in ggml_types().values() if kind.encoding}
    rows = []
    for tensor in tensors_of(model):
        type_id = ids[tensor.encoding]
        data = np.zeros(tensor_nbytes(type_id, tensor.shape), np.uint8)
        rows.append(TensorData(tensor.name, type_id, tensor.shape, data))
    write_gguf(path, metadata_of(model), rows)


def _items(array: Array, layers: int) -> Typed:
    if array.items:
        return Typed("i32", list(array.items))
    there = layer_numbers(array.at) if array.at else ()
    items = [array.there if layer in there else array.each for layer in range(layers)]
    return Typed("bool" if isinstance(array.each, bool) else "u32", items)
