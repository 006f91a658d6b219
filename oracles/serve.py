"""The worker's side of the protocol: read a request, run the op, write the answer, until the stream ends.

A worker is a Python file that says what it offers (`Provider`) and calls `serve`. It is started by path, so it loads
this file by path too, and this file loads `wire.py` beside it in the same way.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import math
import os
import re
import resource
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


def load_beside(name: str) -> ModuleType:
    """A module of this folder by its path, under a name that no engine's package has."""
    path = Path(__file__).resolve().parent / f"{name}.py"
    alias = f"_harness_{name}"
    if alias not in sys.modules:
        spec = importlib.util.spec_from_file_location(alias, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[alias] = module
        spec.loader.exec_module(module)
    return sys.modules[alias]


wire = load_beside("wire")


class Refusal(Exception):
    """An answer that is an error: its kind and a message for a person."""

    kind = "exception"


class BadRequest(Refusal):
    """The request contradicts itself or the format: a wrong number of bytes, a row that no block fits."""

    kind = "bad_request"


class Unsupported(Refusal):
    """The provider does not have this op for this encoding."""

    kind = "unsupported"


class OutOfBounds(Refusal):
    """The engine wrote outside the buffer that it was given."""

    kind = "out_of_bounds"


class WrongDtype(Refusal):
    """The result is no array of a dtype that the caller asked for."""

    kind = "wrong_dtype"


class WrongShape(Refusal):
    """The result has another shape than the caller asked for."""

    kind = "wrong_shape"


@dataclass(frozen=True)
class Reply:
    """What an op gives back. `seconds` is the op alone, without reading, writing or preparing buffers."""

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    seconds: float = 0.0
    result: Mapping[str, Any] = field(default_factory=dict)


Op = Callable[[dict[str, Any], dict[str, np.ndarray]], Reply]


TIME = "time"
"""The op that times another one; every worker has it."""


@dataclass(frozen=True)
class Provider:
    """What a worker offers: `encodings[op]` lists the encodings of each op; ops without encodings list none.

    `engine` identifies what runs and becomes part of evidence; `details` is whatever else a caller may want to know.
    """

    name: str
    version: str
    ops: Mapping[str, Op]
    encodings: Mapping[str, tuple[str, ...]]
    engine: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def hello(self) -> dict[str, Any]:
        return {
            "protocol": wire.PROTOCOL,
            "provider": self.name,
            "version": self.version,
            "engine": dict(self.engine),
            "details": dict(self.details),
            "ops": {op: list(self.encodings.get(op, ())) for op in (*self.ops, TIME)},
            "python": sys.version.split()[0],
            "sys_path": list(sys.path),
        }


def take_streams() -> tuple[int, int]:
    """The descriptors of requests and answers, moved away from 0 and 1.

    Standard output is standard error afterwards, so that an engine's prints cannot reach the stream; standard input
    is empty for the same reason. Call it before code runs that may print or read.
    """
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return requests, answers


MEMORY_LIMIT = 16 << 30
MEMORY_LEAST = 2 << 30


def limit_memory() -> None:
    """Limit the address space to 16 GiB or half of the machine's memory, whichever is less, but not below 2 GiB.

    An engine that a hostile file makes allocate without end then fails alone. Not for a subject: a GPU's runtime
    reserves far more addresses than it uses. Without effect where the system does not have the limit.
    """
    with contextlib.suppress(OSError, ValueError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = max(MEMORY_LEAST, min(MEMORY_LIMIT, memory // 2))
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def serve(provider: Provider, streams: tuple[int, int] | None = None) -> None:
    """Answer requests until their stream ends or `shutdown` is asked for; `streams` is what `take_streams` gave."""
    requests, answers = streams or take_streams()
    while (frame := wire.read_frame(requests)) is not None:
        header, arrays = frame
        del frame
        pieces = _answer(provider, header, arrays)
        try:
            wire.write_pieces(answers, pieces)
        except BrokenPipeError:
            return
        del arrays, pieces
        if header.get("op") == "shutdown":
            return


def _answer(provider: Provider, header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> list[memoryview]:
    """The frame that answers one request, whatever happens in the op."""
    try:
        reply = _run(provider, header.get("op"), header.get("params", {}), arrays)
        done = {"id": header.get("id"), "ok": True, "seconds": reply.seconds, "result": dict(reply.result)}
        return list(wire.encode(done, reply.arrays))
    except Refusal as refusal:
        kind, message = refusal.kind, str(refusal)
    except Exception as error:  # noqa: BLE001  whatever an engine raises costs this one request
        traceback.print_exc()
        kind, message = "exception", f"{type(error).__name__}: {error}"
    failed = {"id": header.get("id"), "ok": False, "error": {"kind": kind, "message": message}}
    return list(wire.encode(failed, {}))


def _run(provider: Provider, op: object, params: object, arrays: dict[str, np.ndarray]) -> Reply:
    if op == "hello":
        return Reply(result=provider.hello())
    if op == "shutdown":
        return Reply()
    if op == TIME:
        return _time(provider, params, arrays)
    if not isinstance(op, str) or op not in provider.ops:
        raise Unsupported(f"{provider.name} has no op {op!r}")
    if not isinstance(params, dict):
        raise BadRequest("params must be an object")
    encodings = provider.encodings.get(op, ())
    if encodings and params.get("encoding") not in encodings:
        raise Unsupported(f"{provider.name} has no {op} for {params.get('encoding')!r}")
    return provider.ops[op](params, arrays)


def _time(provider: Provider, params: object, arrays: dict[str, np.ndarray]) -> Reply:
    """An op again and again on the same arrays, `params` being its `op`, `params`, `warmup` and `repeat`.

    Gives the seconds of each run after the warm-up, as the op itself measures them, and the sha256 of the arrays of the
    last run: that what was timed computed the result that was verified. The arrays themselves stay here.
    """
    if not isinstance(params, dict) or params.get("op") == TIME:
        raise BadRequest("time wants params with the op to be timed, which is not time itself")
    warmup, repeat = params.get("warmup", 1), params.get("repeat", 1)
    if type(warmup) is not int or type(repeat) is not int or warmup < 0 or repeat < 1:
        raise BadRequest(f"warmup and repeat must be counts, got {str(warmup)[:40]} and {str(repeat)[:40]}")
    seconds = []
    for _ in range(warmup + repeat):
        reply = _run(provider, params.get("op"), params.get("params", {}), arrays)
        seconds.append(reply.seconds)
    digests = {
        name: hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
        for name, array in reply.arrays.items()
    }
    measured = seconds[warmup:]
    return Reply(seconds=sum(measured), result={"seconds": measured, "sha256": digests})


GUARD_BYTES = 64
POISON = 0xFF
SECOND_POISON = 0x5A
# Neither poison nor zero, and different from byte to byte: a stray fill with any one value shows.
_ZONE = (1 + np.arange(GUARD_BYTES) * 37 % 253).astype(np.uint8)


class Guarded:
    """An output buffer filled with 0xFF (a NaN in every float type) between two guards of 64 bytes.

    What an engine writes outside is found by `check`, and what it leaves unwritten by `check_filled`.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        self._all = np.full(nbytes + 2 * GUARD_BYTES, POISON, np.uint8)
        self._all[:GUARD_BYTES] = _ZONE
        self._all[-GUARD_BYTES:] = _ZONE
        self._body = self._all[GUARD_BYTES : GUARD_BYTES + nbytes]
        self.array = self._body.view(dtype).reshape(shape)
        self.address = self.array.ctypes.data

    def check(self) -> np.ndarray:
        """The array, once both guards were found untouched. Raises OutOfBounds."""
        for side, guard in (("before", self._all[:GUARD_BYTES]), ("after", self._all[-GUARD_BYTES:])):
            if touched := np.flatnonzero(guard != _ZONE).size:
                raise OutOfBounds(
                    f"the engine wrote {touched} bytes {side} its {self.array.nbytes}-byte output"
                )
        return self.array

    def check_filled(self, run: Callable[[], object]) -> np.ndarray:
        """As `check`; words of 4 bytes that still hold the poison are tried again: `run` fills the same output once more.

        NaN with the poison's bits can be right, so the second run goes over another poison. Raises Refusal when words
        were left alone both times.
        """
        array = self.check()
        suspects = self._holding(POISON)
        if suspects.size:
            self._body.fill(SECOND_POISON)
            run()
            self.check()
            missed = np.intersect1d(suspects, self._holding(SECOND_POISON), assume_unique=True)
            if missed.size:
                raise Refusal(
                    f"the engine never wrote {missed.size} words of 4 bytes of its {array.nbytes}-byte output, "
                    f"the first at byte {4 * int(missed[0])}"
                )
        return array

    def _holding(self, value: int) -> np.ndarray:
        words = self._body[: self._body.size // 4 * 4].view(np.uint32)
        return np.flatnonzero(words == np.uint32(value * 0x01010101))


_LIKE_AN_ESCAPE = re.compile(rb"\\x[0-9a-f]{2}")


def name_text(raw: bytes) -> str:
    """A name from a file as the harness writes it, one text for each name.

    UTF-8 stays as it is. In a name that is not UTF-8, or that holds what looks like an escape, a backslash is doubled
    and each byte that is not UTF-8 becomes `\\xNN`. The same as `harness.containers.gguf_cursor.text_of`.
    """
    if not _LIKE_AN_ESCAPE.search(raw):
        with contextlib.suppress(UnicodeDecodeError):
            return raw.decode("utf-8")
    return raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def shape_of(params: Mapping[str, Any], key: str = "shape") -> tuple[int, ...]:
    """A shape from a request's params: 1 to 8 sizes of at least 0. Raises BadRequest."""
    shape = params.get(key)
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= wire.MAX_DIMENSIONS
        or any(type(size) is not int or size < 0 for size in shape)
    ):
        raise BadRequest(f"{key} must be a list of 1 to {wire.MAX_DIMENSIONS} sizes, got {str(shape)[:80]}")
    return tuple(shape)


def array_of(arrays: Mapping[str, np.ndarray], name: str, dtype: str) -> np.ndarray:
    """An array of a request, with the dtype that the op needs. Raises BadRequest."""
    if name not in arrays:
        raise BadRequest(f"the array {name!r} is missing")
    if arrays[name].dtype != np.dtype(dtype):
        raise BadRequest(f"the array {name!r} is {arrays[name].dtype}, wanted {dtype}")
    return arrays[name]
