"""The tensors of a test-backend-ops case: ggml's sizes and strides, the bytes, and the graph that the engine is sent.

Data is uniform, as upstream's, from the case's seed. What is quantized is quantized by the engine, block after block as
upstream does it, with an importance matrix of ones for every other seed and where the encoding needs one.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cases.ggml.quantize_fns import NEEDS_IMPORTANCE
from kernels.cpu_views import INTEGERS, View, block_of
from oracles.pool import Oracle, Unsupported

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

SHARED_ELEMENTS = 1 << 21
"""Weights of up to so many elements are drawn once for their type and number: the cases that share them differ in the
rest, and an importance-weighted encoding of a million weights takes the engine a second."""

Drawn = tuple[str, int, int, bool, float]
"""Encoding, elements, seed, whether with an importance matrix, largest magnitude."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of ggml: sizes `ne` and strides `nb` (bytes), the fastest dimension first, in memory that it may share.

    `nodes` are what builds it in the engine, itself the last, with sources by their place; `array` names its memory.
    """

    encoding: str
    memory: Bytes
    ne: tuple[int, ...]
    nb: tuple[int, ...]
    nodes: tuple[Mapping[str, Any], ...]
    array: str | None

    def permuted(self, axes: Sequence[int]) -> Tensor:
        """Dimension i becomes dimension `axes[i]`."""
        order = [list(axes).index(at) for at in range(4)]
        return self._as({"axes": list(axes)}, [self.ne[at] for at in order], [self.nb[at] for at in order])

    def transposed(self) -> Tensor:
        order = (1, 0, 2, 3)
        return self._as({}, [self.ne[at] for at in order], [self.nb[at] for at in order])

    def first(self, dimension: int, size: int) -> Tensor:
        """The first `size` of one dimension, the strides as they are."""
        ne = [size if at == dimension else whole for at, whole in enumerate(self.ne)]
        return self._as({"ne": ne, "nb": list(self.nb[1:]), "offset": 0}, ne, self.nb)

    def _as(self, node: Mapping[str, Any], ne: Sequence[int], nb: Sequence[int]) -> Tensor:
        nodes = (*self.nodes, {"of": [len(self.nodes) - 1], **node})
        return replace(self, ne=tuple(ne), nb=tuple(nb), nodes=nodes)

    @property
    def view(self) -> View:
        """The same tensor as our kernels take it."""
        return View(self.encoding, self.memory, self.ne[::-1], self.nb[::-1])

    def blocks(self) -> Bytes:
        """A copy of its blocks in row-major order: uint8 [ne3, ne2, ne1, blocks of a row, block_bytes]."""
        elems, size = block_of(self.encoding)
        counts = (*self.ne[:0:-1], self.ne[0] // elems)
        whole = np.lib.stride_tricks.as_strided(self.memory, (*counts, size), (*self.nb[::-1], 1))
        return np.ascontiguousarray(whole)


def whole(
    encoding: str, memory: Bytes, ne: Sequence[int], array: str | None, *, result: bool = False
) -> Tensor:
    """A tensor that lies in one piece. Without an array the engine gets room for it, filled with 0xFF."""
    elems, size = block_of(encoding)
    nb = [size, ne[0] // elems * size]
    nb += [nb[1] * ne[1], nb[1] * ne[1] * ne[2]]
    node = {"type": encoding, "ne": list(ne)}
    node |= {"array": array} if array is not None else {}
    node |= {"result": True} if result else {}
    return Tensor(encoding, memory, tuple(ne), tuple(nb), (node,), array)


@dataclass(frozen=True)
class Source:
    """Draws the tensors of one case, in order: one a run, since what it draws goes on."""

    engine: Oracle
    seed: int
    rng: np.random.Generator = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rng", np.random.default_rng(self.seed))

    def tensor(
        self, encoding: str, ne: Sequence[int], array: str, *, largest: float = 1.0, shared: bool = False
    ) -> Tensor:
        """Uniform between -largest and largest. A `shared` one depends on its encoding and size and on nothing else."""
        n = math.prod(ne)
        imatrix = encoding in NEEDS_IMPORTANCE or bool(self.seed & 1)
        if shared and n <= SHARED_ELEMENTS:
            digest = hashlib.sha256(f"{encoding} {n} {imatrix}".encode()).digest()
            key = (encoding, n, int.from_bytes(digest[:4], "little"), imatrix, largest)
            return whole(encoding, _shared(self.engine, key), ne, array)
        seed = int(self.rng.integers(1 << 32))
        return whole(encoding, drawn(self.engine, (encoding, n, seed, imatrix, largest)), ne, array)

    def integers(
        self, high: int, ne: Sequence[int], array: str, dtype: type[np.integer] = np.int32
    ) -> Tensor:
        """Indices from 0 to high - 1."""
        values = self.rng.integers(0, high, math.prod(ne)).astype(dtype)
        return indices(values, ne, array)


def indices(values: npt.NDArray[np.integer], ne: Sequence[int], array: str) -> Tensor:
    """A tensor of int32 or int64; the strides are those of 4 or 8 bytes."""
    name, size = ("ggml.i64", 8) if values.dtype == np.int64 else ("ggml.i32", 4)
    nb = [size, size * ne[0], size * ne[0] * ne[1], size * math.prod(ne[:3])]
    node = {"type": name, "ne": list(ne), "array": array}
    memory = values.reshape(-1).view(np.uint8)
    return Tensor(name, memory, tuple(ne), tuple(nb), (node,), array)


def index_values(tensor: Tensor) -> npt.NDArray[np.integer]:
    """The indices of a tensor [ne2, ne1, ne0] at its strides, in its memory."""
    dtype = np.int64 if tensor.encoding == "ggml.i64" else np.int32
    return np.ndarray(tensor.ne[2::-1], dtype, tensor.memory.data, 0, tensor.nb[2::-1])


@functools.lru_cache(maxsize=12)
def _shared(engine: Oracle, key: Drawn) -> Bytes:
    memory = drawn(engine, key)
    memory.flags.writeable = False
    return memory


def drawn(engine: Oracle, key: Drawn) -> Bytes:
    """uint8 [n_bytes]: uniform numbers in the encoding. Integers hold the bits of such numbers, as upstream's do."""
    encoding, n, seed, imatrix, largest = key
    rng = np.random.default_rng(seed)
    elems, size = block_of(encoding)
    memory = np.empty(n // elems * size, np.uint8)
    step = (1 << 24) // elems * elems
    for start in range(0, n, step):
        values = rng.random(min(step, n - start), np.float32)
        values *= np.float32(2 * largest)
        values -= np.float32(largest)
        part = memory[start // elems * size :][: len(values) // elems * size]
        if encoding == "ggml.f32" or encoding in INTEGERS:
            part[:] = values.view(np.uint8)
        else:
            part[:] = encoded(engine, encoding, values.reshape(-1, max(elems, 1)), imatrix)
    return memory


def encoded(engine: Oracle, encoding: str, values: Floats, imatrix: bool = False) -> Bytes:
    """The engine's quantizer of weights on `values` [rows, cols]: uint8 [n_bytes]."""
    if block_of(encoding)[0] == 1:
        values, imatrix = values.reshape(1, -1), False
    arrays: dict[str, npt.NDArray[Any]] = {"values": values}
    if imatrix or encoding in NEEDS_IMPORTANCE:
        arrays["imatrix"] = np.ones(values.shape[-1], np.float32)
    return engine.call("quantize", {"encoding": encoding}, arrays).arrays["data"]


def run(engine: Oracle, op: str, tensors: Sequence[Tensor], n_bytes: int) -> Bytes | None:
    """What the engine's CPU backend computes: the result's uint8 [n_bytes], or None where it says that it does not.

    The result of an op that writes into one of its tensors is the memory of that tensor.
    """
    nodes: list[Mapping[str, Any]] = []
    places = []
    for tensor in tensors:
        shift = len(nodes)
        nodes += [
            {**node, "of": [at + shift for at in node["of"]]} if "of" in node else node
            for node in tensor.nodes
        ]
        places.append(len(nodes) - 1)
    nodes.append({"of": places, "op": op})
    arrays = {tensor.array: tensor.memory for tensor in tensors if tensor.array is not None}
    try:
        answer = engine.call("backend_op", {"nodes": nodes}, arrays, expect={"data": ("uint8", (n_bytes,))})
    except Unsupported:
        return None
    return answer.arrays["data"]
