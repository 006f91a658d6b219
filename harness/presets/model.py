"""What a preset's choice depends on: a few numbers of a model's metadata, and the name, shape and type of each tensor."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.containers.checkpoint import Checkpoint, MetadataValue
from harness.errors import BadInput

LAYERS_OF_70B: Mapping[str, int] = {
    "llama": 80,
    "llama-embed": 80,
    "qwen2": 80,
    "deci": 80,
    "olmo": 80,
    "jais2": 68,
}
"""Architecture -> the layer count at which the engine takes a model for one of 70B parameters. No weight is counted."""

_SHARED_HEADS_NEEDED = frozenset({"llama", "llama-embed"})
_WITHOUT_NUMBERS = frozenset({"clip"})
"""Architectures of which the engine reads no numbers before it quantizes them."""

_LAYER = re.compile(r"blk\.\s*([+-]?\d+)")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor. `shape` is row-major, the last dimension contiguous; `encoding` is how it is stored now."""

    name: str
    shape: tuple[int, ...]
    encoding: str = "ggml.f16"

    @property
    def columns(self) -> int:
        return self.shape[-1] if self.shape else 1

    @property
    def dimensions(self) -> int:
        """As ggml counts them: leading dimensions of one do not count, and there is always one."""
        leading = next((at for at, size in enumerate(self.shape[:-1]) if size != 1), None)
        return 1 if leading is None else len(self.shape) - leading

    @property
    def stacked(self) -> bool:
        """Whether it holds several matrices, as the experts of a layer are held."""
        return len(self.shape) > 2 and self.shape[-3] > 1

    @property
    def layer(self) -> int | None:
        """The number behind `blk.` at the start of the name."""
        found = _LAYER.match(self.name)
        return int(found[1]) if found else None


@dataclass(frozen=True)
class Model:
    """A model as the quantizer sees it. `heads` and `kv_heads` are those of layer 0, which stands for all of them.

    `layers` counts every block, with those of multi-token prediction (`nextn_layers`) among them. `file` is for errors.
    """

    architecture: str
    layers: int
    heads: int
    kv_heads: int
    experts: int
    tensors: tuple[Tensor, ...]
    nextn_layers: int = 0
    file: str = "(no file)"

    @property
    def queries_per_kv_head(self) -> int:
        """0 when layer 0 has no key-value head, as in a hybrid model that starts with a recurrent layer.

        Raises BadInput for a model without layers: the engine ends its process when a rule asks this of one.
        """
        if not self.layers:
            raise BadInput(
                file=self.file,
                field="attention.head_count of layer 0",
                got=f"a model of architecture {self.architecture}, which has no layers to the quantizer",
                wanted="a preset whose rules do not ask how many query heads share a value, such as Q8_0 or Q4_K_M",
            )
        return self.heads // self.kv_heads if self.kv_heads else 0

    @property
    def is_70b(self) -> bool:
        if self.layers - self.nextn_layers != LAYERS_OF_70B.get(self.architecture):
            return False
        return self.architecture not in _SHARED_HEADS_NEEDED or (
            self.heads != self.kv_heads and self.experts != 8
        )

    @cached_property
    def tied(self) -> bool:
        """Whether the token embedding serves as the output matrix too: there is no other."""
        return all(tensor.name != "output.weight" for tensor in self.tensors)

    @cached_property
    def in_order(self) -> tuple[Tensor, ...]:
        """The tensors as the engine visits them: those outside the layers first, then by layer, then by name."""
        return tuple(sorted(self.tensors, key=_place))


def read_model(checkpoint: Checkpoint) -> Model:
    """The model in an open GGUF checkpoint. Raises BadInput naming the key that is missing or has another shape."""
    if checkpoint.architecture is None:
        raise BadInput(
            file=checkpoint.path,
            field="general.architecture",
            got="nothing",
            wanted="the architecture, whose rules the choice follows",
        )
    read = _Keys(checkpoint.path, checkpoint.architecture, checkpoint.metadata)
    tensors = tuple(
        Tensor(info.name, info.shape, info.encoding or f"ggml.{info.type_name.lower()}")
        for info in checkpoint.tensors
    )
    if checkpoint.architecture in _WITHOUT_NUMBERS:
        return Model(checkpoint.architecture, 0, 0, 0, 0, tensors, file=str(checkpoint.path))
    blocks = read.count("block_count")
    heads = read.of_layer_0("attention.head_count", blocks, 0)
    layers, nextn = _counted(checkpoint.architecture, read, blocks, read.count("nextn_predict_layers", 0))
    return Model(
        architecture=checkpoint.architecture,
        layers=layers,
        heads=heads,
        kv_heads=read.of_layer_0("attention.head_count_kv", blocks, heads),
        experts=read.count("expert_count", 0),
        tensors=tensors,
        nextn_layers=nextn,
        file=str(checkpoint.path),
    )


def _place(tensor: Tensor) -> tuple[int, bytes]:
    layer = tensor.layer
    return (-1 if layer is None else layer, tensor.name.encode())


def _counted(architecture: str, read: _Keys, blocks: int, nextn: int) -> tuple[int, int]:
    """Layers and prediction layers as the engine counts them once it knows the architecture."""
    if architecture == "nanbeige":  # the same blocks are run several times, and each run counts
        loops = read.count("num_loops", 1)
        return ((blocks - nextn) * loops if loops > 1 else blocks), nextn
    if architecture == "graniteswitch":  # one more for the router, booked as a prediction layer
        return blocks - nextn + 1, 1
    return blocks, nextn


@dataclass(frozen=True, slots=True)
class _Keys:
    """Whole numbers of one architecture's keys."""

    file: Path
    architecture: str
    metadata: Mapping[str, MetadataValue]

    def count(self, name: str, default: int | None = None) -> int:
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._bad(name, value, "a count")
        return value

    def of_layer_0(self, name: str, blocks: int, default: int) -> int:
        """A number, or the first of one for each of `blocks` layers."""
        value = self._value(name, default)
        if isinstance(value, int):
            return self.count(name, default)
        if not hasattr(value, "__len__") or isinstance(value, str | bytes):
            raise self._bad(name, value, "a count, or one for each layer")
        if len(value) != blocks or not blocks:
            raise self._bad(name, f"{len(value)} of them", f"one for each of {blocks} layers")
        first = value[0]
        if isinstance(first, str | bytes) or first < 0 or not math.isfinite(first) or first != int(first):
            raise self._bad(name, first, "counts")
        return int(first)

    def _value(self, name: str, default: int | None) -> Any:
        entry = self.metadata.get(f"{self.architecture}.{name}")
        if entry is not None:
            return entry.value()
        if default is None:
            raise self._bad(name, "nothing", "a count")
        return default

    def _bad(self, name: str, got: object, wanted: str) -> BadInput:
        return BadInput(file=self.file, field=f"{self.architecture}.{name}", got=got, wanted=wanted)
