"""The second opinion on formats: gguf-py's decoders and quantizers, and ml_dtypes for the small float types.

Independent of every engine's C code. Encodings are those gguf-py knows: `ggml.<type name in lower case>`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import math
import sys
import time
from pathlib import Path

import gguf
import gguf.gguf_reader
import gguf.quants
import ml_dtypes
import numpy as np

_ORACLES = Path(__file__).resolve().parents[1]
_spec = importlib.util.spec_from_file_location("_harness_serve", _ORACLES / "serve.py")
serve = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = serve
_spec.loader.exec_module(serve)

# gguf-py's reader decodes names by `str(raw, encoding="utf-8")` and so refuses a file in which one is not UTF-8, which the
# engine reads. Within that module the word means this instead.
gguf.gguf_reader.str = lambda raw, encoding: serve.name_text(raw)

# gguf-py gives Q8_1 a block of 40 bytes where ggml has 36, and decodes it nowhere: never offered.
WRONG_SIZE = ("q8_1",)
PLAIN = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def known_types(method: str) -> dict[str, gguf.GGMLQuantizationType]:
    """encoding -> type, for the plain floats and every type whose class really has `method`."""
    types = {}
    for kind in gguf.GGMLQuantizationType:
        name = kind.name.lower()
        if name in WRONG_SIZE:
            continue
        if name in PLAIN or _implements(kind, method):
            types[f"ggml.{name}"] = kind
    return types


def _implements(kind: gguf.GGMLQuantizationType, method: str) -> bool:
    """gguf-py's base class has every method and raises NotImplementedError in it: one block shows which are real."""
    elems, size = gguf.GGML_QUANT_SIZES[kind]
    try:
        with np.errstate(all="ignore"):
            if method == "dequantize":
                gguf.quants.dequantize(np.zeros((1, size), np.uint8), kind)
            else:
                gguf.quants.quantize(np.zeros((1, elems), np.float32), kind)
    except (NotImplementedError, KeyError):
        return False
    return True


DECODERS = known_types("dequantize")
ENCODERS = known_types("quantize")


def dequantize(params: dict, arrays: dict) -> object:
    """data uint8 [n_bytes] -> values float32 [shape].

    The plain floats are ml_dtypes' and numpy's; with `by` "gguf" they are gguf-py's too, made an array of their own
    where gguf-py gives a view of the data.
    """
    encoding, shape = params["encoding"], serve.shape_of(params)
    kind = DECODERS[encoding]
    elems, size = gguf.GGML_QUANT_SIZES[kind]
    data = serve.array_of(arrays, "data", "uint8").reshape(-1)
    if shape[-1] % elems:
        raise serve.BadRequest(
            f"{encoding}: rows of {shape[-1]} elements are no whole number of {elems}-blocks"
        )
    row_bytes = shape[-1] // elems * size
    rows = math.prod(shape) // shape[-1] if shape[-1] else 0
    if data.size != rows * row_bytes:
        raise serve.BadRequest(f"{encoding} {list(shape)} takes {rows * row_bytes} bytes, got {data.size}")
    if not data.size:
        return serve.Reply({"values": np.zeros(shape, np.float32)})
    plain = None if params.get("by") == "gguf" else PLAIN.get(kind.name.lower())
    with np.errstate(all="ignore"):
        start = time.perf_counter()
        if plain is not None:
            values = data.view(plain).astype(np.float32)
        else:
            values = gguf.quants.dequantize(data.reshape(rows, row_bytes), kind)
            if np.may_share_memory(values, data):
                values = values.copy()
        seconds = time.perf_counter() - start
    return serve.Reply({"values": values.reshape(shape)}, seconds)


def quantize(params: dict, arrays: dict) -> object:
    """values float32 [..., cols] -> data uint8 [n_bytes]."""
    encoding = params["encoding"]
    kind = ENCODERS[encoding]
    elems, _ = gguf.GGML_QUANT_SIZES[kind]
    values = serve.array_of(arrays, "values", "float32")
    if values.ndim == 0 or values.size == 0 or values.shape[-1] % elems:
        raise serve.BadRequest(
            f"{encoding}: values must be rows of whole {elems}-blocks, got {list(values.shape)}"
        )
    plain = PLAIN.get(kind.name.lower())
    rows = np.ascontiguousarray(values).reshape(-1, values.shape[-1])
    with np.errstate(all="ignore"):
        start = time.perf_counter()
        data = rows.astype(plain) if plain is not None else gguf.quants.quantize(rows, kind)
        seconds = time.perf_counter() - start
    return serve.Reply({"data": np.ascontiguousarray(data).reshape(-1).view(np.uint8)}, seconds)


def describe(params: dict, _arrays: dict) -> object:
    """gguf-py's reading of a GGUF file: keys, tensors in file order, offsets from the start of the data."""
    path = params.get("path")
    if not isinstance(path, str) or not Path(path).is_file():
        raise serve.BadRequest(f"path is no file: {str(path)[:200]}")
    start = time.perf_counter()
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, KeyError, IndexError, OverflowError, MemoryError) as error:
        if "GGMLQuantizationType" in str(error):
            # A type newer than the package: it has no opinion on such a file.
            raise serve.Unsupported(f"gguf-py cannot read the file: {error}") from None
        raise serve.BadRequest(f"gguf-py refuses the file: {type(error).__name__}: {error}") from None
    seconds = time.perf_counter() - start
    result = {
        "container": "gguf",
        "version": int(reader.fields["GGUF.version"].parts[-1][0]),
        "alignment": int(reader.alignment),
        "data_offset": int(reader.data_offset),
        "keys": [_key(name, field) for name, field in reader.fields.items() if not name.startswith("GGUF.")],
        "tensors": [_tensor(tensor, reader.data_offset) for tensor in reader.tensors],
    }
    return serve.Reply(seconds=seconds, result=result)


# gguf-py's names for value types -> the names that ggml prints
KEY_TYPES = {
    "UINT8": "u8",
    "INT8": "i8",
    "UINT16": "u16",
    "INT16": "i16",
    "UINT32": "u32",
    "INT32": "i32",
    "UINT64": "u64",
    "INT64": "i64",
    "FLOAT32": "f32",
    "FLOAT64": "f64",
    "BOOL": "bool",
    "STRING": "str",
    "ARRAY": "arr",
}


def _key(name: str, field: gguf.ReaderField) -> dict:
    entry = {"key": name, "type": KEY_TYPES[field.types[0].name]}
    if field.types[0] is gguf.GGUFValueType.ARRAY:
        entry["element"] = KEY_TYPES[field.types[-1].name] if len(field.types) > 1 else None
        entry["count"] = len(field.data)
    return entry


def _tensor(tensor: gguf.ReaderTensor, data_offset: int) -> dict:
    shape = [int(size) for size in tensor.shape]
    while len(shape) > 1 and shape[-1] == 1:
        shape.pop()
    name = tensor.tensor_type.name
    return {
        "name": tensor.name,
        "type_id": int(tensor.tensor_type),
        "type": name,
        "encoding": f"ggml.{name.lower()}",
        "offset": int(tensor.data_offset) - int(data_offset),
        "nbytes": int(tensor.n_bytes),
        "shape": shape[::-1],
    }


if __name__ == "__main__":
    serve.limit_memory()
    versions = {}
    for package in ("gguf", "ml_dtypes", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    serve.serve(
        serve.Provider(
            name="formats",
            version=versions["gguf"],
            ops={"dequantize": dequantize, "quantize": quantize, "describe": describe},
            encodings={"dequantize": tuple(DECODERS), "quantize": tuple(ENCODERS), "describe": ()},
            engine=versions,
            details={"blocks": {name: list(gguf.GGML_QUANT_SIZES[kind]) for name, kind in DECODERS.items()}},
        )
    )
