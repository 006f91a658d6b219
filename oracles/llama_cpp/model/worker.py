"""llama.cpp as llama-cpp-python builds it: its quantizer of whole files, beside the ops of `llama_cpp.ops` on this build.

The package itself is never imported; `libllama` is loaded by ctypes, and ggml's symbols are found in what it links to.
The ops are those of `../ops/worker.py`, loaded by path with this library.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import sysconfig
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

GGML_VERSION, COMMIT = "0.25.3", "0c1e570"
"""What the pinned source says about itself once it is built."""

SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
LIBRARY = Path(sysconfig.get_path("platlib")) / "llama_cpp" / "lib" / f"libllama{SUFFIX}"


def load_ops() -> ModuleType:
    """The worker of `llama_cpp.ops` as a module, on the library of this build."""
    path = Path(__file__).resolve().parents[1] / "ops" / "worker.py"
    spec = importlib.util.spec_from_file_location("_harness_llama_cpp_ops", path)
    module = importlib.util.module_from_spec(spec)
    module.LIBRARY = LIBRARY
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ops = load_ops()
serve, LIB = ops.serve, ops.LIB
TYPE_COUNT = ops.TYPE_COUNT


class ImatrixData(c.Structure):
    _fields_ = (("name", c.c_char_p), ("data", c.c_void_p), ("size", c.c_size_t))


class TensorOverride(c.Structure):
    _fields_ = (("pattern", c.c_char_p), ("type", c.c_int))


class QuantizeParams(c.Structure):
    _fields_ = (
        ("nthread", c.c_int32),
        ("ftype", c.c_int),
        ("output_tensor_type", c.c_int),
        ("token_embedding_type", c.c_int),
        ("allow_requantize", c.c_bool),
        ("quantize_output_tensor", c.c_bool),
        ("only_copy", c.c_bool),
        ("pure", c.c_bool),
        ("keep_split", c.c_bool),
        ("dry_run", c.c_bool),
        ("imatrix", c.POINTER(ImatrixData)),
        ("kv_overrides", c.c_void_p),
        ("tt_overrides", c.POINTER(TensorOverride)),
        ("prune_layers", c.c_void_p),
        ("max_buf_size", c.c_size_t),
    )


class ModelParams(c.Structure):
    _fields_ = (
        ("devices", c.c_void_p),
        ("tensor_buft_overrides", c.c_void_p),
        ("n_gpu_layers", c.c_int32),
        ("split_mode", c.c_int),
        ("load_mode", c.c_int),
        ("lazy_mode", c.c_int),
        ("main_gpu", c.c_int32),
        ("tensor_split", c.c_void_p),
        ("progress_callback", c.c_void_p),
        ("progress_callback_user_data", c.c_void_p),
        ("kv_overrides", c.c_void_p),
        ("vocab_only", c.c_bool),
        ("check_tensors", c.c_bool),
        ("use_extra_bufts", c.c_bool),
        ("no_host", c.c_bool),
        ("no_alloc", c.c_bool),
        ("load_mtp", c.c_bool),
    )


# name -> (result, arguments)
SIGNATURES = {
    "llama_backend_init": (None, ()),
    "llama_log_set": (None, (ops.LOG_CALLBACK, c.c_void_p)),
    "llama_ftype_name": (c.c_char_p, (c.c_int,)),
    "llama_model_quantize_default_params": (QuantizeParams, ()),
    "llama_model_quantize": (c.c_uint32, (c.c_char_p, c.c_char_p, c.POINTER(QuantizeParams))),
    "llama_model_default_params": (ModelParams, ()),
    "llama_model_load_from_file": (c.c_void_p, (c.c_char_p, ModelParams)),
    "llama_model_free": (None, (c.c_void_p,)),
    "llama_model_desc": (c.c_int32, (c.c_void_p, c.c_char_p, c.c_size_t)),
    "llama_model_n_params": (c.c_uint64, (c.c_void_p,)),
    "llama_model_size": (c.c_uint64, (c.c_void_p,)),
    "llama_model_n_layer": (c.c_int32, (c.c_void_p,)),
    "llama_model_n_embd": (c.c_int32, (c.c_void_p,)),
    "llama_model_get_vocab": (c.c_void_p, (c.c_void_p,)),
    "llama_vocab_n_tokens": (c.c_int32, (c.c_void_p,)),
}
LAST_FTYPE = 41

for _name, (_result, _arguments) in SIGNATURES.items():
    _function = getattr(LIB, _name)
    _function.restype, _function.argtypes = _result, _arguments

MOST_LINES = 4000
LINES: list[str] = []


@ops.LOG_CALLBACK
def _collect(_level: int, text: bytes | None, _data: int | None) -> None:
    LINES.append((text or b"").decode("utf-8", "replace"))


LIB.llama_log_set(ops._keep_log, None)
LIB.llama_backend_init()


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    """The lines that the engine logs meanwhile; filled when the block ends."""
    LINES.clear()
    lines: list[str] = []
    LIB.llama_log_set(_collect, None)
    try:
        yield lines
    finally:
        LIB.llama_log_set(ops._keep_log, None)
        lines += [line for line in "".join(LINES).splitlines() if line.strip()][:MOST_LINES]
        LINES.clear()


def quantize_model(params: dict, arrays: dict) -> object:
    """Write `target`, a GGUF file, from `source` by the engine's quantizer on one thread.

    params: source, target, ftype (llama_ftype), and optionally
        imatrix_seed      draw an importance matrix: float32 in [0.5, 1.5) for each column of each matrix
        overrides         [[regular expression over tensor names, encoding], …]; the first that matches decides
        output_type, embedding_type   encodings of output.weight and token_embd.weight
        pure              every matrix in the file type's own encoding
        allow_requantize  the source may hold quantized tensors
    arrays: an importance matrix by tensor name, float32 [columns * experts] each; instead of a seed.

    Result: rc (0 or what the engine returned; then there is no file), log (lines), sha256 and bytes of the file.
    """
    source, target = _file(params, "source"), Path(_text(params, "target"))
    if target == source or not target.parent.is_dir():
        raise serve.BadRequest(f"target is no new file in a folder that exists: {str(target)[:200]}")
    code, lines, seconds = _run_quantizer(params, arrays, source, target, dry_run=False)
    result: dict = {"rc": code, "log": lines}
    if code:
        target.unlink(missing_ok=True)
    else:
        with target.open("rb") as file:
            result["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
        result["bytes"] = target.stat().st_size
    return serve.Reply(seconds=seconds, result=result)


_TENSOR_LINE = re.compile(
    r"^\[ *\d+/ *\d+\] (\S+) +- \[([ \d,]*)\], type = +(\S+), size = [^(]*(?:\((\S+)\))?$"
)


def quantize_types(params: dict, arrays: dict) -> object:
    """What `quantize_model` would store of each tensor, by the engine's dry run: nothing is written or read but the header.

    params and arrays as there, without target. Result: rc, log, tensors ([{name, from, to}], encodings) and
    needs_imatrix (the engine says that it would refuse without one).
    """
    code, lines, seconds = _run_quantizer(params, arrays, _file(params, "source"), None, dry_run=True)
    tensors = []
    for line in lines:
        if found := _TENSOR_LINE.match(line):
            name, _, before, after = found.groups()
            entry = {"name": name, "from": _encoding(before), "to": _encoding(after or before)}
            tensors.append(entry)
    needs = any("will require an imatrix" in line for line in lines)
    return serve.Reply(
        seconds=seconds, result={"rc": code, "log": lines, "tensors": tensors, "needs_imatrix": needs}
    )


def _run_quantizer(
    params: dict, arrays: dict, source: Path, target: Path | None, *, dry_run: bool
) -> tuple[int, list[str], float]:
    """(return code, log, seconds)"""
    wanted = LIB.llama_model_quantize_default_params()
    wanted.nthread, wanted.dry_run = 1, dry_run
    wanted.ftype = _number(params, "ftype")
    wanted.pure, wanted.allow_requantize = bool(params.get("pure")), bool(params.get("allow_requantize"))
    wanted.output_tensor_type = _type_id(params.get("output_type"))
    wanted.token_embedding_type = _type_id(params.get("embedding_type"))
    # The structures hold addresses only: what they point at lives in these until the call has ended.
    weights = _importance(params, arrays, source)
    if weights:
        entries = [ImatrixData(name.encode(), data.ctypes.data, data.size) for name, data in weights.items()]
        wanted.imatrix = (ImatrixData * (len(entries) + 1))(*entries, ImatrixData())
    if overrides := params.get("overrides"):
        patterns = [TensorOverride(str(text).encode(), _type_id(name)) for text, name in overrides]
        wanted.tt_overrides = (TensorOverride * (len(patterns) + 1))(*patterns, TensorOverride())
    start = time.perf_counter()
    with collected() as lines:
        code = LIB.llama_model_quantize(
            os.fsencode(source), b"" if target is None else os.fsencode(target), c.byref(wanted)
        )
    return code, lines, time.perf_counter() - start


def _importance(params: dict, arrays: dict, source: Path) -> dict[str, np.ndarray]:
    """The importance matrices by tensor name, float32 [columns * experts]; none when nobody asked for one."""
    if params.get("imatrix_seed") is None:
        return {name: ops.contiguous(serve.array_of(arrays, name, "float32")) for name in arrays}
    if arrays:
        raise serve.BadRequest("an importance matrix is drawn from a seed or given, not both")
    seed = _number(params, "imatrix_seed")
    weights = {}
    for tensor in ops.describe({"path": str(source)}, {}).result["tensors"]:
        shape = tensor["shape"]
        if len(shape) > 1:
            rng = np.random.default_rng([seed, zlib.crc32(tensor["name"].encode())])
            size = shape[-1] * (shape[0] if len(shape) == 3 else 1)
            weights[tensor["name"]] = rng.random(size, np.float32) + np.float32(0.5)
    return weights


def load(params: dict, _arrays: dict) -> object:
    """Load the file at `path` as a model and let it go again. Result: what the engine says that it is."""
    path = _file(params, "path")
    wanted = LIB.llama_model_default_params()
    wanted.n_gpu_layers, wanted.check_tensors = 0, True
    start = time.perf_counter()
    with collected() as lines:
        model = LIB.llama_model_load_from_file(os.fsencode(path), wanted)
    seconds = time.perf_counter() - start
    if not model:
        raise serve.BadRequest(f"the engine refuses the model: {' / '.join(lines[-3:])}")
    try:
        text = c.create_string_buffer(256)
        LIB.llama_model_desc(model, text, len(text))
        result = {
            "description": text.value.decode("utf-8", "replace"),
            "parameters": LIB.llama_model_n_params(model),
            "bytes": LIB.llama_model_size(model),
            "layers": LIB.llama_model_n_layer(model),
            "embedding": LIB.llama_model_n_embd(model),
            "vocabulary": LIB.llama_vocab_n_tokens(LIB.llama_model_get_vocab(model)),
        }
    finally:
        LIB.llama_model_free(model)
    return serve.Reply(seconds=seconds, result=result)


def _encoding(type_name: str) -> str:
    return f"ggml.{type_name.lower()}"


def _type_id(encoding: object) -> int:
    """ggml's number of an encoding; none is the number behind the last type, which means that nothing was asked for."""
    if encoding is None:
        return TYPE_COUNT
    if encoding not in ops.TYPES:
        raise serve.BadRequest(f"the engine has no type {str(encoding)[:80]}")
    return ops.TYPES[encoding].id


def _number(params: dict, key: str) -> int:
    value = params.get(key)
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise serve.BadRequest(f"{key} must be a number of at least 0, got {str(value)[:40]}")
    return value


def _text(params: dict, key: str) -> str:
    value = params.get(key)
    if not isinstance(value, str) or not value:
        raise serve.BadRequest(f"{key} must be a path, got {str(value)[:40]}")
    return value


def _file(params: dict, key: str) -> Path:
    path = Path(_text(params, key))
    if not path.is_file():
        raise serve.BadRequest(f"{key} is no file: {str(path)[:200]}")
    return path


def refuse_another_build() -> None:
    """End the process with a reason where the library is not what this pin's recipe builds."""
    version, commit = LIB.ggml_version().decode(), LIB.ggml_commit().decode()
    if version != GGML_VERSION or not commit.startswith(COMMIT):
        sys.exit(f"ggml is {version} ({commit}), wanted {GGML_VERSION} ({COMMIT})")
    # GGML_NATIVE=OFF stops at AVX2 on x86_64; a build for the machine's own CPU has known miscompilations.
    if platform.machine().lower() in ("x86_64", "amd64") and LIB.ggml_cpu_has_avx512():
        sys.exit("this build was made with GGML_NATIVE=ON: its AVX-512 code is miscompiled by some compilers")


OPS = {
    "dequantize": ops.dequantize,
    "quantize": ops.quantize,
    "quantize_activation": ops.quantize_activation,
    "quantize_row": ops.quantize_row,
    "vec_dot": ops.vec_dot,
    "describe": ops.describe,
    "quantize_model": quantize_model,
    "quantize_types": quantize_types,
    "load": load,
}

if __name__ == "__main__":
    refuse_another_build()
    serve.limit_memory()
    offered = ops.offered()
    serve.serve(
        serve.Provider(
            name="llama_cpp.model",
            version=importlib.metadata.version("llama_cpp_python"),
            ops=OPS,
            encodings={op: offered.get(op, ()) for op in OPS},
            engine={
                "ggml_version": LIB.ggml_version().decode(),
                "ggml_commit": LIB.ggml_commit().decode(),
            },
            details={
                "blocks": {t.encoding: [t.block_elems, t.block_bytes] for t in ops.TYPES.values()},
                "needs_imatrix": [
                    t.encoding for t in ops.TYPES.values() if LIB.ggml_quantize_requires_imatrix(t.id)
                ],
                "activations": {
                    t.encoding: ops.BY_ID[t.cpu.vec_dot_type].encoding
                    for t in ops.TYPES.values()
                    if t.cpu.vec_dot
                },
                "ftypes": {str(n): LIB.llama_ftype_name(n).decode() for n in range(LAST_FTYPE + 1)},
            },
        )
    )
