"""llama.cpp's own reader and writer of GGUF files, whole: every value, every tensor's bytes, copies and rewrites.

Loaded by path by `worker.py`, which hands it the library. A value is told as the bytes that it has in a file, without
type and count: in hexadecimal where they are few, as their digest otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

READ_CALLBACK = c.CFUNCTYPE(c.c_size_t, c.c_void_p, c.c_void_p, c.c_uint64, c.c_size_t)
CHUNK_BYTES = 4096
SHOWN_BYTES = 64

STRING, ARRAY = 8, 9
ITEM_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


# name -> (result, arguments); those that open a file take the worker's structure of options behind these.
OPENING = {
    "gguf_init_from_file_ptr": (c.c_void_p, (c.c_void_p,)),
    "gguf_init_from_buffer": (c.c_void_p, (c.c_void_p, c.c_size_t)),
    "gguf_init_from_callback": (c.c_void_p, (READ_CALLBACK, c.c_void_p, c.c_size_t, c.c_uint64)),
}
SIGNATURES = {
    "gguf_init_empty": (c.c_void_p, ()),
    "gguf_get_arr_data": (c.c_void_p, (c.c_void_p, c.c_int64)),
    "gguf_get_arr_str": (c.c_char_p, (c.c_void_p, c.c_int64, c.c_size_t)),
    "gguf_get_val_data": (c.c_void_p, (c.c_void_p, c.c_int64)),
    "gguf_get_val_str": (c.c_char_p, (c.c_void_p, c.c_int64)),
    "gguf_set_kv": (None, (c.c_void_p, c.c_void_p)),
    "gguf_add_tensor": (None, (c.c_void_p, c.c_void_p)),
    "gguf_write_to_file": (c.c_bool, (c.c_void_p, c.c_char_p, c.c_bool)),
    "ggml_free": (None, (c.c_void_p,)),
    "ggml_get_first_tensor": (c.c_void_p, (c.c_void_p,)),
    "ggml_get_next_tensor": (c.c_void_p, (c.c_void_p, c.c_void_p)),
    "ggml_get_data": (c.c_void_p, (c.c_void_p,)),
    "ggml_nbytes": (c.c_size_t, (c.c_void_p,)),
    "ggml_get_name": (c.c_char_p, (c.c_void_p,)),
}
LIBC_SIGNATURES = {
    "fopen": (c.c_void_p, (c.c_char_p, c.c_char_p)),
    "fseek": (c.c_int, (c.c_void_p, c.c_long, c.c_int)),
    "fclose": (c.c_int, (c.c_void_p,)),
}


def declare(library: c.CDLL, signatures: dict[str, Any]) -> None:
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def make_ops(
    library: c.CDLL,
    log: list[str],
    options: type[c.Structure],
    describe: Callable[[int], dict[str, Any]],
    serve: ModuleType,
) -> dict[str, Callable[..., object]]:
    """The ops of this file. `describe` tells what a context holds, without values; `log` collects the engine's words."""
    declare(library, SIGNATURES)
    declare(library, {name: (kind, (*arguments, options)) for name, (kind, arguments) in OPENING.items()})
    libc = c.CDLL(None)
    declare(libc, LIBC_SIGNATURES)

    def gguf_open(params: dict[str, Any], _arrays: dict[str, Any]) -> object:
        """path, through, offset, data -> whether the engine accepts the file, its words, and all that it read.

        `through` is file, offset (the file begins `offset` bytes into a larger one), buffer or callback. With `data`
        the tensors are loaded too, and told by the digest of their bytes.
        """
        log.clear()
        start = time.perf_counter()
        with opened(params, params.get("data") is True) as (context, tensors):
            seconds = time.perf_counter() - start
            words = [line.strip() for line in log]
            if not context:
                return serve.Reply(
                    seconds=seconds,
                    result={"accepted": False, "log": words, "dangling": bool(tensors.value)},
                )
            result = {"accepted": True, "log": words, **describe(context)}
            for i, key in enumerate(result["keys"]):
                key["value"] = shown(value_bytes(context, i))
            if params.get("data") is True:
                digests = {name: hashlib.sha256(data).hexdigest() for name, data in loaded(tensors)}
                for tensor in result["tensors"]:
                    tensor["sha256"] = digests[tensor["name"]]
            return serve.Reply(seconds=seconds, result=result)

    def gguf_rewrite(params: dict[str, Any], _arrays: dict[str, Any]) -> object:
        """path, into, back, tensors, only_meta, out -> a file written by the engine, with the source's keys and tensors.

        The keys of `path` are set in a copy of the file `into`, or in an empty context without one; with `back` the
        result's keys are set in the source, and it is the source that is written. `tensors` adds those of `path`.
        """
        into, out = params.get("into"), params.get("out")
        if not isinstance(out, str):
            raise serve.BadRequest("out must be the path of the file to write")
        log.clear()
        with contextlib.ExitStack() as contexts:
            source, tensors = contexts.enter_context(opened(params, params.get("tensors") is True))
            if into is None:
                target = library.gguf_init_empty()
                contexts.callback(library.gguf_free, target)
            else:
                target, _ = contexts.enter_context(opened({"path": into}, False))
            if not source or not target:
                raise serve.BadRequest(
                    f"the engine refuses the file: {' / '.join(line.strip() for line in log[-3:])}"
                )
            library.gguf_set_kv(target, source)
            if params.get("back") is True:
                library.gguf_set_kv(source, target)
                target = source
            if params.get("tensors") is True:
                for tensor in each_tensor(tensors):
                    library.gguf_add_tensor(target, tensor)
            written = library.gguf_write_to_file(target, os.fsencode(out), params.get("only_meta") is True)
        if not written:
            raise RuntimeError(f"the engine did not write {out}")
        return serve.Reply()

    @contextlib.contextmanager
    def opened(params: dict[str, Any], data: bool) -> Iterator[tuple[int | None, c.c_void_p]]:
        """(the GGUF context, or None when the engine refuses the file; the ggml context of its tensors)."""
        path = params.get("path")
        if not isinstance(path, str) or not Path(path).is_file():
            raise serve.BadRequest(f"path is no file: {str(path)[:200]}")
        tensors = c.c_void_p()
        how = options(not data, c.addressof(tensors) if data else None)
        context = by_way(params.get("through", "file"), path, int(params.get("offset", 0)), how)
        try:
            yield context, tensors
        finally:
            if context:
                if tensors.value:
                    library.ggml_free(tensors)
                library.gguf_free(context)

    def by_way(way: str, path: str, offset: int, how: c.Structure) -> Any:
        if way == "file":
            return library.gguf_init_from_file(os.fsencode(path), how)
        if way == "offset":
            return from_open_file(path, offset, how)
        raw = Path(path).read_bytes()
        if way == "buffer":
            kept = c.create_string_buffer(raw, len(raw))
            return library.gguf_init_from_buffer(kept, len(raw), how)
        if way == "callback":

            def read(_user: int, output: int, at: int, length: int) -> int:
                piece = raw[at : at + length]
                c.memmove(output, piece, len(piece))
                return len(piece)

            return library.gguf_init_from_callback(READ_CALLBACK(read), None, CHUNK_BYTES, len(raw), how)
        raise serve.BadRequest(f"through must be file, offset, buffer or callback, got {way[:40]!r}")

    def from_open_file(path: str, offset: int, how: c.Structure) -> Any:
        file = libc.fopen(os.fsencode(path), b"rb")
        if not file:
            raise serve.BadRequest(f"path cannot be opened: {path[:200]}")
        try:
            if libc.fseek(file, offset, os.SEEK_SET):
                raise serve.BadRequest(f"offset {offset} cannot be reached")
            return library.gguf_init_from_file_ptr(file, how)
        finally:
            libc.fclose(file)

    def value_bytes(context: int, i: int) -> bytes:
        """A value as a file holds it. The C interface gives strings up to their first NUL."""
        kind = library.gguf_get_kv_type(context, i)
        if kind == STRING:
            return string(library.gguf_get_val_str(context, i))
        if kind != ARRAY:
            return c.string_at(library.gguf_get_val_data(context, i), ITEM_BYTES[kind])
        item, count = library.gguf_get_arr_type(context, i), library.gguf_get_arr_n(context, i)
        if item == STRING:
            return b"".join(string(library.gguf_get_arr_str(context, i, j)) for j in range(count))
        return c.string_at(library.gguf_get_arr_data(context, i), count * ITEM_BYTES[item]) if count else b""

    def loaded(tensors: c.c_void_p) -> Iterator[tuple[str, bytes]]:
        for tensor in each_tensor(tensors):
            size = library.ggml_nbytes(tensor)
            data = c.string_at(library.ggml_get_data(tensor), size) if size else b""
            yield serve.name_text(library.ggml_get_name(tensor)), data

    def each_tensor(tensors: c.c_void_p) -> Iterator[int]:
        """Every tensor but the first, which is the engine's own: the whole data section as one."""
        tensor = library.ggml_get_first_tensor(tensors)
        while tensor := library.ggml_get_next_tensor(tensors, tensor):
            yield tensor

    return {"gguf_open": gguf_open, "gguf_rewrite": gguf_rewrite}


def string(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def shown(raw: bytes) -> str:
    """Few bytes in hexadecimal, many as their digest."""
    return raw.hex() if len(raw) <= SHOWN_BYTES else f"sha256:{hashlib.sha256(raw).hexdigest()}"
