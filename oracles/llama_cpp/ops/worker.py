"""llama.cpp's decoders, quantizers and dot products through the C symbols of xllamacpp's shared object.

The package itself is never imported (it is a server); its one library is loaded by ctypes. ggml's type table says which
encodings exist: `ggml.<type name in lower case>`. Every output lies between guard bytes and starts as 0xFF.
"""

from __future__ import annotations

import ctypes as c
import importlib.metadata
import importlib.util
import math
import os
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

_ORACLES = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("_harness_serve", _ORACLES / "serve.py")
serve = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = serve
_spec.loader.exec_module(serve)

# The library does not tell how long its type table is, and reading past it is undefined: 43 types in ggml 0.26.0.
TYPE_COUNT = 43


class Traits(c.Structure):
    _fields_ = (
        ("type_name", c.c_char_p),
        ("blck_size", c.c_int64),
        ("blck_size_interleave", c.c_int64),
        ("type_size", c.c_size_t),
        ("is_quantized", c.c_bool),
        ("to_float", c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_int64)),
        ("from_float_ref", c.c_void_p),
    )


class CpuTraits(c.Structure):
    _fields_ = (
        ("from_float", c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_int64)),
        (
            "vec_dot",
            c.CFUNCTYPE(
                None, c.c_int, c.c_void_p, c.c_size_t, c.c_void_p, c.c_size_t, c.c_void_p, c.c_size_t, c.c_int
            ),
        ),
        ("vec_dot_type", c.c_int),
        ("nrows", c.c_int64),
    )


class InitParams(c.Structure):
    _fields_ = (("no_alloc", c.c_bool), ("ctx", c.c_void_p))


LOG_CALLBACK = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)

# name -> (result, arguments)
SIGNATURES = {
    "ggml_version": (c.c_char_p, ()),
    "ggml_commit": (c.c_char_p, ()),
    "ggml_cpu_init": (None, ()),
    "ggml_log_set": (None, (LOG_CALLBACK, c.c_void_p)),
    "ggml_get_type_traits": (c.POINTER(Traits), (c.c_int,)),
    "ggml_get_type_traits_cpu": (c.POINTER(CpuTraits), (c.c_int,)),
    "ggml_quantize_requires_imatrix": (c.c_bool, (c.c_int,)),
    "ggml_quantize_chunk": (
        c.c_size_t,
        (c.c_int, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64, c.c_int64, c.c_void_p),
    ),
    "dequantize_row_q8_K": (None, (c.c_void_p, c.c_void_p, c.c_int64)),
    "gguf_init_from_file": (c.c_void_p, (c.c_char_p, InitParams)),
    "gguf_free": (None, (c.c_void_p,)),
    "gguf_get_version": (c.c_uint32, (c.c_void_p,)),
    "gguf_get_alignment": (c.c_size_t, (c.c_void_p,)),
    "gguf_get_data_offset": (c.c_size_t, (c.c_void_p,)),
    "gguf_get_n_kv": (c.c_int64, (c.c_void_p,)),
    "gguf_get_key": (c.c_char_p, (c.c_void_p, c.c_int64)),
    "gguf_get_kv_type": (c.c_int, (c.c_void_p, c.c_int64)),
    "gguf_get_arr_type": (c.c_int, (c.c_void_p, c.c_int64)),
    "gguf_get_arr_n": (c.c_size_t, (c.c_void_p, c.c_int64)),
    "gguf_type_name": (c.c_char_p, (c.c_int,)),
    "gguf_get_n_tensors": (c.c_int64, (c.c_void_p,)),
    "gguf_get_tensor_name": (c.c_char_p, (c.c_void_p, c.c_int64)),
    "gguf_get_tensor_type": (c.c_int, (c.c_void_p, c.c_int64)),
    "gguf_get_tensor_ne": (c.POINTER(c.c_int64), (c.c_void_p, c.c_int64)),
    "gguf_get_tensor_offset": (c.c_size_t, (c.c_void_p, c.c_int64)),
    "gguf_get_tensor_size": (c.c_size_t, (c.c_void_p, c.c_int64)),
}
ARRAY_TYPE = 9


@dataclass(frozen=True)
class Type:
    """One live entry of ggml's type table."""

    id: int
    name: str
    block_elems: int
    block_bytes: int
    traits: Traits
    cpu: CpuTraits

    @property
    def encoding(self) -> str:
        return f"ggml.{self.name.lower()}"

    def row_bytes(self, n: int) -> int:
        if n % self.block_elems:
            raise serve.BadRequest(
                f"{self.encoding}: {n} elements are no whole number of {self.block_elems}-blocks"
            )
        return n // self.block_elems * self.block_bytes


def library_path() -> Path:
    """The package's only shared object. Raises OSError."""
    found = sorted((Path(sysconfig.get_path("platlib")) / "xllamacpp").glob("*.so"))
    if len(found) != 1:
        raise OSError(f"wanted one shared object in the package xllamacpp, found {len(found)}")
    return found[0]


def load_library(path: Path) -> c.CDLL:
    """The shared object with its signatures declared; raises OSError with the linker's words."""
    library = c.CDLL(str(path))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def read_types(library: c.CDLL) -> dict[str, Type]:
    """Every type that ggml still has, by encoding; removed ones have no block size."""
    types = {}
    for number in range(TYPE_COUNT):
        traits = library.ggml_get_type_traits(number).contents
        if traits.blck_size:
            cpu = library.ggml_get_type_traits_cpu(number).contents
            name = traits.type_name.decode()
            entry = Type(number, name, traits.blck_size, traits.type_size, traits, cpu)
            types[entry.encoding] = entry
    return types


# The worker of another build of llama.cpp loads this file by path with the name LIBRARY set.
LIB = load_library(globals().get("LIBRARY") or library_path())
LOG: list[str] = []


@LOG_CALLBACK
def _keep_log(_level: int, text: bytes | None, _data: int | None) -> None:
    line = (text or b"").decode("utf-8", "replace")
    LOG.append(line)
    del LOG[:-20]
    print(line, end="", file=sys.stderr, flush=True)


LIB.ggml_log_set(_keep_log, None)
LIB.ggml_cpu_init()
TYPES = read_types(LIB)
BY_ID = {entry.id: entry for entry in TYPES.values()}
FLOATS = ("ggml.f32", "ggml.f16", "ggml.bf16")


def dequantize(params: dict, arrays: dict) -> object:
    """data uint8 [n_bytes] -> values float32 [shape], by the decoder of ggml's type table."""
    entry, shape = TYPES[params["encoding"]], serve.shape_of(params)
    data = contiguous(serve.array_of(arrays, "data", "uint8"))
    n = math.prod(shape)
    wanted = entry.row_bytes(shape[-1]) * (n // shape[-1] if n else 0)
    if data.size != wanted:
        raise serve.BadRequest(f"{entry.encoding} {list(shape)} takes {wanted} bytes, got {data.size}")
    out = serve.Guarded(shape, "float32")

    def run() -> None:
        if entry.encoding == "ggml.f32":
            c.memmove(out.address, data.ctypes.data, wanted)
        elif entry.encoding == "ggml.q8_k":
            LIB.dequantize_row_q8_K(data.ctypes.data, out.address, n)
        else:
            entry.traits.to_float(data.ctypes.data, out.address, n)

    seconds = timed(run)
    return serve.Reply({"values": out.check_filled(run)}, seconds)


def quantize(params: dict, arrays: dict) -> object:
    """values float32 [..., cols], optional imatrix float32 [cols] -> data uint8 [n_bytes], by ggml_quantize_chunk."""
    entry = TYPES[params["encoding"]]
    values = contiguous(serve.array_of(arrays, "values", "float32"))
    if values.ndim == 0 or values.size == 0:
        raise serve.BadRequest("values must be at least one row")
    cols = values.shape[-1]
    rows = values.size // cols
    imatrix = None
    if "imatrix" in arrays:
        imatrix = contiguous(serve.array_of(arrays, "imatrix", "float32"))
        if imatrix.shape != (cols,):
            raise serve.BadRequest(f"imatrix must be [{cols}], got {list(imatrix.shape)}")
    elif LIB.ggml_quantize_requires_imatrix(entry.id):
        raise serve.BadRequest(
            f"{entry.encoding} is quantized with an importance matrix only: give 'imatrix' [{cols}]"
        )
    out = serve.Guarded((rows * entry.row_bytes(cols),), "uint8")

    def run() -> None:
        written = LIB.ggml_quantize_chunk(
            entry.id,
            values.ctypes.data,
            out.address,
            0,
            rows,
            cols,
            None if imatrix is None else imatrix.ctypes.data,
        )
        if written != out.array.nbytes:
            raise RuntimeError(f"the engine reports {written} bytes for a result of {out.array.nbytes}")

    seconds = timed(run)
    return serve.Reply({"data": out.check_filled(run)}, seconds)


def quantize_activation(params: dict, arrays: dict) -> object:
    """values float32 [..., cols] -> data uint8 [rows, row_bytes] in the type that the weights' dot product takes.

    `encoding` is the weights'; the result's "encoding" names the activations'. By the CPU backend's from_float.
    """
    return quantized_rows(BY_ID[TYPES[params["encoding"]].cpu.vec_dot_type], arrays)


def quantize_row(params: dict, arrays: dict) -> object:
    """values float32 [..., cols] -> data uint8 [rows, row_bytes] of `encoding` itself, by the CPU backend's from_float."""
    return quantized_rows(TYPES[params["encoding"]], arrays)


def quantized_rows(entry: Type, arrays: dict) -> object:
    """The array `values` row by row through the CPU backend's from_float of a type."""
    values = contiguous(serve.array_of(arrays, "values", "float32"))
    if values.ndim == 0 or values.size == 0:
        raise serve.BadRequest("values must be at least one row")
    cols = values.shape[-1]
    rows = values.size // cols
    out = serve.Guarded((rows, entry.row_bytes(cols)), "uint8")

    def run() -> None:
        for row in range(rows):
            entry.cpu.from_float(
                values.ctypes.data + row * cols * 4, out.address + row * out.array.shape[1], cols
            )

    seconds = timed(run)
    # The engine leaves the sums of an all-zero Q8_K block as they were: no fault, since its scale multiplies them by zero.
    return serve.Reply({"data": out.check()}, seconds, {"encoding": entry.encoding})


def vec_dot(params: dict, arrays: dict) -> object:
    """x uint8 [m, x_row_bytes] weights, y uint8 [k, y_row_bytes] activations, params n -> values float32 [m, k].

    values[i, j] is the CPU backend's dot product of row i of x with row j of y over n elements; y is encoded in the
    type that `quantize_activation` gives.
    """
    entry = TYPES[params["encoding"]]
    other = BY_ID[entry.cpu.vec_dot_type]
    n = params.get("n")
    if type(n) is not int or not 0 < n < 1 << 31:
        raise serve.BadRequest(f"n must be the number of elements of a row, got {str(n)[:40]}")
    x, y = (contiguous(serve.array_of(arrays, name, "uint8")) for name in ("x", "y"))
    for name, array, row_bytes in (("x", x, entry.row_bytes(n)), ("y", y, other.row_bytes(n))):
        if array.ndim != 2 or array.shape[1] != row_bytes:
            raise serve.BadRequest(f"{name} must be [rows, {row_bytes}] for n = {n}, got {list(array.shape)}")
    out = serve.Guarded((x.shape[0], y.shape[0]), "float32")
    dot, x_at, y_at = entry.cpu.vec_dot, x.ctypes.data, y.ctypes.data

    def run() -> None:
        at = out.address
        for i in range(x.shape[0]):
            for j in range(y.shape[0]):
                dot(n, at, 0, x_at + i * x.shape[1], 0, y_at + j * y.shape[1], 0, 1)
                at += 4

    seconds = timed(run)
    return serve.Reply({"values": out.check_filled(run)}, seconds, {"activations": other.encoding})


def describe(params: dict, _arrays: dict) -> object:
    """The engine's own reading of a GGUF file: keys, tensors in file order, offsets from the start of the data."""
    path = params.get("path")
    if not isinstance(path, str) or not Path(path).is_file():
        raise serve.BadRequest(f"path is no file: {str(path)[:200]}")
    LOG.clear()
    start = time.perf_counter()
    context = LIB.gguf_init_from_file(os.fsencode(path), InitParams(True, None))
    seconds = time.perf_counter() - start
    if not context:
        raise serve.BadRequest(
            f"the engine refuses the file: {' / '.join(line.strip() for line in LOG[-3:])}"
        )
    try:
        return serve.Reply(seconds=seconds, result=_read_context(context))
    finally:
        LIB.gguf_free(context)


def _read_context(context: int) -> dict:
    return {
        "container": "gguf",
        "version": LIB.gguf_get_version(context),
        "alignment": LIB.gguf_get_alignment(context),
        "data_offset": LIB.gguf_get_data_offset(context),
        "keys": [_key(context, i) for i in range(LIB.gguf_get_n_kv(context))],
        "tensors": [_tensor(context, i) for i in range(LIB.gguf_get_n_tensors(context))],
    }


def _key(context: int, i: int) -> dict:
    kind = LIB.gguf_get_kv_type(context, i)
    entry = {
        "key": serve.name_text(LIB.gguf_get_key(context, i)),
        "type": serve.name_text(LIB.gguf_type_name(kind)),
    }
    if kind == ARRAY_TYPE:
        entry["element"] = serve.name_text(LIB.gguf_type_name(LIB.gguf_get_arr_type(context, i)))
        entry["count"] = LIB.gguf_get_arr_n(context, i)
    return entry


def _tensor(context: int, i: int) -> dict:
    number = LIB.gguf_get_tensor_type(context, i)
    ne = LIB.gguf_get_tensor_ne(context, i)[:4]
    dimensions = max([1, *(at for at in range(1, 5) if ne[at - 1] != 1)])
    return {
        "name": serve.name_text(LIB.gguf_get_tensor_name(context, i)),
        "type_id": number,
        "type": BY_ID[number].name,
        "encoding": BY_ID[number].encoding,
        "offset": LIB.gguf_get_tensor_offset(context, i),
        "nbytes": LIB.gguf_get_tensor_size(context, i),
        "shape": ne[:dimensions][::-1],
    }


def beside(name: str) -> ModuleType:
    """A module of this file's folder, by its path."""
    spec = importlib.util.spec_from_file_location(
        f"_llama_cpp_{name}", Path(__file__).resolve().with_name(f"{name}.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def timed(run: Callable[[], object]) -> float:
    """Seconds that one run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def contiguous(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array)


def has_symbol(name: str) -> bool:
    try:
        getattr(LIB, name)
    except AttributeError:
        return False
    return True


def offered() -> dict[str, tuple[str, ...]]:
    """op -> encodings, from the type table: no decoder, quantizer or dot product is called that it does not have."""
    every = TYPES.values()
    decodable = [t for t in every if t.traits.to_float or t.encoding in ("ggml.f32", "ggml.q8_k")]
    quantizable = [t for t in every if t.encoding in FLOATS or has_symbol(f"quantize_{t.name}")]
    dots = [t for t in every if t.cpu.vec_dot]
    fed = [t for t in dots if BY_ID[t.cpu.vec_dot_type].cpu.from_float]
    return {
        "dequantize": tuple(t.encoding for t in decodable),
        "quantize": tuple(t.encoding for t in quantizable),
        "quantize_activation": tuple(t.encoding for t in fed),
        "quantize_row": tuple(t.encoding for t in every if t.cpu.from_float),
        "vec_dot": tuple(t.encoding for t in dots),
        "describe": (),
    }


if __name__ == "__main__":
    serve.limit_memory()
    serve.serve(
        serve.Provider(
            name="llama_cpp.ops",
            version=importlib.metadata.version("xllamacpp"),
            ops={
                "dequantize": dequantize,
                "quantize": quantize,
                "quantize_activation": quantize_activation,
                "quantize_row": quantize_row,
                "vec_dot": vec_dot,
                "describe": describe,
                **beside("gguf_file").make_ops(LIB, LOG, InitParams, _read_context, serve),
                "backend_op": beside("graph").make_op(LIB, TYPES, serve),
            },
            encodings=offered(),
            engine={
                "ggml_version": LIB.ggml_version().decode(),
                "ggml_commit": LIB.ggml_commit().decode(),
            },
            details={
                "blocks": {t.encoding: [t.block_elems, t.block_bytes] for t in TYPES.values()},
                "needs_imatrix": [
                    t.encoding for t in TYPES.values() if LIB.ggml_quantize_requires_imatrix(t.id)
                ],
                "activations": {
                    t.encoding: BY_ID[t.cpu.vec_dot_type].encoding for t in TYPES.values() if t.cpu.vec_dot
                },
            },
        )
    )
