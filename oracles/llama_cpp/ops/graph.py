"""One op of ggml as its CPU backend runs it: a graph of a few tensors, built through the C functions, on one thread.

`worker.py` beside it loads this file by path. The memory of the tensors is ours: each lies between guard bytes, what
the engine has to write starts as 0xFF, and the engine's own struct is never read.
"""

from __future__ import annotations

import ctypes as c
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

Request = dict[str, Any]
Arrays = dict[str, np.ndarray]
Node = Mapping[str, Any]


class ContextParams(c.Structure):
    _fields_ = (("mem_size", c.c_size_t), ("mem_buffer", c.c_void_p), ("no_alloc", c.c_bool))


_P, _I, _L, _S = c.c_void_p, c.c_int, c.c_int64, c.c_size_t
# name -> (result, arguments)
SIGNATURES = {
    "ggml_init": (_P, (ContextParams,)),
    "ggml_free": (None, (_P,)),
    "ggml_tensor_overhead": (_S, ()),
    "ggml_graph_overhead": (_S, ()),
    "ggml_new_tensor_4d": (_P, (_P, _I, _L, _L, _L, _L)),
    "ggml_permute": (_P, (_P, _P, _I, _I, _I, _I)),
    "ggml_transpose": (_P, (_P, _P)),
    "ggml_view_4d": (_P, (_P, _P, _L, _L, _L, _L, _S, _S, _S, _S)),
    "ggml_mul_mat": (_P, (_P, _P, _P)),
    "ggml_mul_mat_id": (_P, (_P, _P, _P, _P)),
    "ggml_get_rows": (_P, (_P, _P, _P)),
    "ggml_get_rows_back": (_P, (_P, _P, _P, _P)),
    "ggml_set_rows": (_P, (_P, _P, _P, _P)),
    "ggml_cpy": (_P, (_P, _P, _P)),
    "ggml_out_prod": (_P, (_P, _P, _P)),
    "ggml_nbytes": (_S, (_P,)),
    "ggml_new_graph": (_P, (_P,)),
    "ggml_build_forward_expand": (None, (_P, _P)),
    "ggml_backend_cpu_init": (_P, ()),
    "ggml_backend_cpu_set_n_threads": (None, (_P, _I)),
    "ggml_backend_cpu_buffer_from_ptr": (_P, (_P, _S)),
    "ggml_backend_buffer_free": (None, (_P,)),
    "ggml_backend_tensor_alloc": (_I, (_P, _P, _P)),
    "ggml_backend_view_init": (_I, (_P,)),
    "ggml_backend_supports_op": (c.c_bool, (_P, _P)),
    "ggml_backend_graph_compute": (_I, (_P, _P)),
}

# op -> (tensors that it takes, whether its result lies in the memory of one of them)
OPS = {
    "mul_mat": (2, False),
    "mul_mat_id": (3, False),
    "get_rows": (2, False),
    "get_rows_back": (3, False),
    "set_rows": (3, True),
    "cpy": (2, True),
    "out_prod": (2, False),
}
NODES = 16
ALIGNMENT = 64
GUARD_BYTES = 64
POISON = 0xFF
# Neither poison nor zero, and different from byte to byte: a stray fill with any one value shows.
ZONE = (1 + np.arange(GUARD_BYTES) * 37 % 253).astype(np.uint8)


class Memory:
    """Room for tensors of the given sizes (bytes), each aligned, between guards, and filled with 0xFF."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.starts, at = [], GUARD_BYTES
        for size in sizes:
            self.starts.append(at)
            at += -(-size // ALIGNMENT) * ALIGNMENT + GUARD_BYTES
        self._ends = [start + size for start, size in zip(self.starts, sizes, strict=True)]
        whole = np.empty(at + ALIGNMENT, np.uint8)
        shift = -whole.ctypes.data % ALIGNMENT
        self.bytes = whole[shift : shift + at]
        self.bytes.fill(POISON)
        self._guards = [0, *self._ends]
        for guard in self._guards:
            self.bytes[guard : guard + GUARD_BYTES] = ZONE

    def of(self, index: int) -> np.ndarray:
        return self.bytes[self.starts[index] : self._ends[index]]

    def address(self, index: int) -> int:
        return int(self.bytes.ctypes.data) + self.starts[index]

    def touched(self) -> int:
        """How many guard bytes were written."""
        return sum(
            int(np.count_nonzero(self.bytes[guard : guard + GUARD_BYTES] != ZONE)) for guard in self._guards
        )


def make_op(
    loaded: c.CDLL, types: Mapping[str, Any], serve: ModuleType
) -> Callable[[Request, Arrays], object]:
    """The op `backend_op` of a worker: docs/protocol.md says what it takes and gives."""
    # A handle of its own: the signatures of one file beside the worker are not those of another.
    library = c.CDLL(loaded._name)
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    backend = library.ggml_backend_cpu_init()
    library.ggml_backend_cpu_set_n_threads(backend, 1)

    def backend_op(params: Request, arrays: Arrays) -> object:
        nodes = _checked(params, arrays, types, serve)
        size = NODES * library.ggml_tensor_overhead() + library.ggml_graph_overhead()
        context = library.ggml_init(ContextParams(size, None, True))
        try:
            tensors = _build(library, context, nodes, types)
            for node, tensor in zip(nodes, tensors, strict=True):
                if "op" in node and not library.ggml_backend_supports_op(backend, tensor):
                    raise serve.Unsupported(f"ggml's CPU backend does not take this {node['op']}")
            return _run(nodes, tensors, context, arrays)
        finally:
            library.ggml_free(context)

    def _run(nodes: list[Node], tensors: list[int], context: int, arrays: Arrays) -> object:
        own = [at for at, node in enumerate(nodes) if _has_memory(node)]
        memory = Memory([library.ggml_nbytes(tensors[at]) for at in own])
        for place, at in enumerate(own):
            name = nodes[at].get("array")
            if name is not None:
                given = arrays[name].reshape(-1).view(np.uint8)
                if given.nbytes != memory.of(place).nbytes:
                    raise serve.BadRequest(
                        f"tensor {at} takes {memory.of(place).nbytes} bytes, the array {name!r} has {given.nbytes}"
                    )
                memory.of(place)[:] = given
        buffer = library.ggml_backend_cpu_buffer_from_ptr(memory.bytes.ctypes.data, memory.bytes.nbytes)
        try:
            for at, tensor in enumerate(tensors):
                if at in own:
                    library.ggml_backend_tensor_alloc(buffer, tensor, memory.address(own.index(at)))
                else:
                    library.ggml_backend_view_init(tensor)
            graph = library.ggml_new_graph(context)
            library.ggml_build_forward_expand(graph, tensors[-1])
            start = time.perf_counter()
            status = library.ggml_backend_graph_compute(backend, graph)
            seconds = time.perf_counter() - start
        finally:
            library.ggml_backend_buffer_free(buffer)
        if status != 0:
            raise serve.Refusal(f"the engine's graph ended with status {status}")
        if touched := memory.touched():
            raise serve.OutOfBounds(f"the engine wrote {touched} bytes beside its tensors")
        result = next(at for at in reversed(own) if nodes[at].get("result") or "op" in nodes[at])
        return serve.Reply({"data": memory.of(own.index(result))}, seconds)

    return backend_op


def _has_memory(node: Mapping[str, Any]) -> bool:
    return "type" in node or ("op" in node and not OPS[node["op"]][1])


def _build(library: c.CDLL, context: int, nodes: list[Node], types: Mapping[str, Any]) -> list[int]:
    tensors: list[int] = []
    for node in nodes:
        if "type" in node:
            made = library.ggml_new_tensor_4d(context, types[node["type"]].id, *node["ne"])
        elif "op" in node:
            made = getattr(library, f"ggml_{node['op']}")(context, *(tensors[at] for at in node["of"]))
        else:
            source = tensors[node["of"][0]]
            if "axes" in node:
                made = library.ggml_permute(context, source, *node["axes"])
            elif "ne" in node:
                made = library.ggml_view_4d(context, source, *node["ne"], *node["nb"], node["offset"])
            else:
                made = library.ggml_transpose(context, source)
        tensors.append(made)
    return tensors


_FIELDS = (
    {"type", "ne", "array"},
    {"type", "ne", "result"},
    {"type", "ne", "array", "result"},
    {"of", "axes"},
    {"of", "ne", "nb", "offset"},
    {"of"},
    {"of", "op"},
)


def _checked(params: Request, arrays: Arrays, types: Mapping[str, Any], serve: ModuleType) -> list[Node]:
    """The nodes of a request, in an order in which they can be built. Raises BadRequest.

    The engine ends the process over a graph that contradicts itself, which costs the request and no more: only what
    would have it read memory that is not there is refused here.
    """
    nodes = params.get("nodes")
    if not isinstance(nodes, list) or not 2 <= len(nodes) <= NODES:
        raise serve.BadRequest(f"nodes must be a list of 2 to {NODES} objects")
    for at, node in enumerate(nodes):
        if not isinstance(node, dict) or set(node) not in _FIELDS:
            raise serve.BadRequest(f"node {at} is none of a tensor, a view and an op: {str(node)[:80]}")
        numbers = [*node.get("ne", ()), *node.get("nb", ()), *node.get("axes", ()), *node.get("of", ())]
        if any(type(number) is not int or not 0 <= number < 1 << 40 for number in numbers):
            raise serve.BadRequest(f"node {at}: a size, stride, axis or source that is no natural number")
        if "type" in node and node["type"] not in types:
            raise serve.BadRequest(f"node {at}: ggml has no type {str(node['type'])[:40]!r}")
        if "ne" in node and len(node["ne"]) != 4:
            raise serve.BadRequest(f"node {at}: ne holds four sizes")
        if node.get("array") is not None and node["array"] not in arrays:
            raise serve.BadRequest(f"node {at}: the array {str(node['array'])[:40]!r} is missing")
        if any(source >= at for source in node.get("of", ())):
            raise serve.BadRequest(f"node {at}: its sources come after it")
        if "op" in node and (node["op"] not in OPS or len(node["of"]) != OPS[node["op"]][0]):
            raise serve.BadRequest(f"node {at}: no op, or not its number of sources: {str(node)[:80]}")
        if "axes" in node and sorted(node["axes"]) != [0, 1, 2, 3]:
            raise serve.BadRequest(f"node {at}: axes must be 0 to 3, each once")
        if "nb" in node and (len(node["nb"]) != 3 or type(node["offset"]) is not int or node["offset"] < 0):
            raise serve.BadRequest(f"node {at}: a view has three strides and an offset")
        if "of" in node and "op" not in node and len(node["of"]) != 1:
            raise serve.BadRequest(f"node {at}: a view has one source")
    if "op" not in nodes[-1]:
        raise serve.BadRequest("the last node must be the op whose result is wanted")
    return nodes
