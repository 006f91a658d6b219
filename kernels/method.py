"""What a checkpoint method has to offer: the contract that engines ask of a `quant_method`, and who lacks what.

A method is a folder `kernels/<dialect>/<name>/` with a `method.py`: classes `Config`, `Linear` and `MoE`, and the three
doors by which a method is reached. The members are those that vLLM asks for (`QuantizationConfig`, `QuantizeMethodBase`,
`FusedMoEMethodBase`, seen in 0.26), and those that its loader takes from parameters. Weights are numpy arrays by
name, so that a method can be tried without an engine.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

LayerKind = Literal["linear", "moe", "embedding", "attention"]
Side = Literal["in", "out"]
Weights = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Parameter:
    """One stored tensor of a layer, as a loader fills it.

    `shape` counts items of `dtype`; `pack_factor` weights lie in one item along `packed_dim`. `in_dim` and `out_dim`
    are the dimensions that tensor parallelism cuts, None where the tensor is the same on every rank.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    in_dim: int | None = None
    out_dim: int | None = None
    packed_dim: int | None = None
    pack_factor: int = 1


class QuantMethod(Protocol):
    """`Config`: what a checkpoint's `quantization_config` says, and what follows for every layer.

    `minimum_capability` is 80 for sm_80, 0 where none is needed. `storage_dtype` is what a weight tensor has on disk;
    `pack_order[i]` is the place in an item of the i-th weight that it holds (one entry: nothing is packed).
    """

    name: ClassVar[str]
    activation_dtypes: ClassVar[tuple[str, ...]]
    minimum_capability: ClassVar[int]
    storage_dtype: str
    pack_order: tuple[int, ...]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The method that `quantization_config` describes. Raises BadInput naming the field that it cannot honour."""
        ...

    def dispatch(self, prefix: str, layer: LayerKind) -> str | None:
        """The scheme of the layer called `prefix`; None where the layer stays as it is."""
        ...

    def scale_shape(self, out_features: int, in_features: int) -> tuple[int, ...]:
        """The shape of the scales of weights [out_features, in_features]."""
        ...

    def shard_alignment(self, side: Side) -> int:
        """Features that a rank's share has to be a multiple of, along one side."""
        ...


class LinearMethod(Protocol):
    """`Linear`: one layer, made of a config. Weights are [out_features, in_features] before they are packed."""

    def create_weights(
        self, in_features: int, out_features: Sequence[int], activation_dtype: str
    ) -> tuple[Parameter, ...]:
        """The tensors of a rank's share; several `out_features` are projections that were merged into one layer."""
        ...

    def apply(
        self, weights: Weights, x: NDArray[np.floating], bias: NDArray[np.floating] | None = None
    ) -> NDArray[np.float32]:
        """x [tokens, in_features] times the transposed weights: [tokens, out_features]."""
        ...

    def quantize_from_half(self, weights: NDArray[np.float16]) -> Weights:
        """The stored tensors of half-precision weights [out_features, in_features]."""
        ...

    def process_after_loading(self, weights: Weights) -> Weights:
        """What `apply` takes, of what the checkpoint holds: repacked, transposed, scales folded in."""
        ...


class MoEMethod(Protocol):
    """`MoE`: all experts of one layer; every tensor has the experts as its first dimension."""

    def create_weights(
        self, experts: int, hidden: int, intermediate: int, activation_dtype: str
    ) -> tuple[Parameter, ...]:
        """The tensors of gate and up [experts, 2 * intermediate, hidden] and of down [experts, hidden, intermediate]."""
        ...

    def apply(
        self,
        weights: Weights,
        x: NDArray[np.floating],
        topk_weights: NDArray[np.float32],
        topk_ids: NDArray[np.integer],
    ) -> NDArray[np.float32]:
        """x [tokens, hidden] through the experts topk_ids [tokens, k], weighted: [tokens, hidden]."""
        ...

    def quantize_from_half(self, weights: NDArray[np.float16]) -> Weights:
        """The stored tensors of half-precision weights [experts, out_features, in_features]."""
        ...

    def process_after_loading(self, weights: Weights) -> Weights:
        """As for one layer, for every expert."""
        ...


class Doors(Protocol):
    """The module itself: how a method is reached."""

    ALIASES: tuple[str, ...]
    """Other names of the same method in a `quantization_config`, or on a command line."""
    RUNTIME_SCHEME: str | None
    """The name under which half-precision weights are quantized at load; None where only checkpoints are read."""

    def detect(self, config: Mapping[str, Any]) -> bool:
        """Whether a checkpoint's `quantization_config` is this method's, whatever name it goes by."""
        ...


CONTRACT: Mapping[str, type] = {"Config": QuantMethod, "Linear": LinearMethod, "MoE": MoEMethod}
"""Class of `method.py` -> what it has to offer."""


@dataclass(frozen=True)
class Missing:
    """A member that is not there, or not as the contract has it: `member` as in `Config.dispatch`."""

    member: str
    line: int
    message: str


def check_method(file: Path) -> list[Missing]:
    """What the `method.py` at `file` lacks, by parsing it: nothing is imported. A file that does not parse lacks all."""
    try:
        body = ast.parse(file.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError) as problem:
        line = getattr(problem, "lineno", None) or 1
        return [Missing("(file)", line, f"it cannot be read: {type(problem).__name__}")]
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    found = list(_compared("", body, 1, Doors, module=True))
    for name, wanted in CONTRACT.items():
        if name not in classes:
            found.append(Missing(name, 1, f"there is no class {name}"))
        else:
            found += _compared(f"{name}.", classes[name].body, classes[name].lineno, wanted)
    return found


def _compared(
    prefix: str, body: Sequence[ast.stmt], line: int, wanted: type, *, module: bool = False
) -> Iterator[Missing]:
    """What a class, or the module, lacks of the members of `wanted`. A field of an instance needs no value."""
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    values = {name: (at, given) for name, at, given in _assigned(body)}
    for name, kind in inspect.get_annotations(wanted).items():
        at, given = values.get(name, (line, False))
        if name not in values and name not in functions:
            yield Missing(f"{prefix}{name}", line, f"there is no {prefix}{name}")
        elif name in values and not given and (module or str(kind).startswith("ClassVar")):
            yield Missing(f"{prefix}{name}", at, f"{prefix}{name} has no value")
    for name, function in vars(wanted).items():
        member = inspect.unwrap(getattr(function, "__func__", function))
        if name.startswith("_") or not inspect.isfunction(member):
            continue
        parameters = list(inspect.signature(member).parameters)[int(module) :]
        if name not in functions:
            yield Missing(f"{prefix}{name}", line, f"there is no {prefix}{name}({', '.join(parameters)})")
            continue
        node = functions[name]
        got = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        if got != parameters:
            words = f"{prefix}{name}({', '.join(got)}): wanted {prefix}{name}({', '.join(parameters)})"
            yield Missing(f"{prefix}{name}", node.lineno, words)


def _assigned(body: Sequence[ast.stmt]) -> Iterator[tuple[str, int, bool]]:
    """(name, line, whether it is given a value) of every name that is assigned or annotated."""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.lineno, node.value is not None
        elif isinstance(node, ast.Assign):
            yield from ((each.id, node.lineno, True) for each in node.targets if isinstance(each, ast.Name))
