"""The process in which somebody else's Python runs, so that its crash, hang or stray write costs one case.

Started by path, `python -P harness/subjects/host.py TARGET`; speaks the protocol of docs/protocol.md. Input and output
lie between guard zones, and what it is given may be asked for twice to see whether the bits stay.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import ma

if __name__ == "__main__":
    # Ours before the current folder or the subject's comes in sight: it may hold a `harness` of its own.
    ROOT = str(Path(__file__).resolve().parents[2])
    sys.path.insert(0, ROOT)

from harness import guard
from harness.guard import GuardedBuffer, guarded_copy, never_written
from harness.subjects.target import load_ops, parse_target
from oracles import serve as serving

if __name__ == "__main__":
    sys.path.remove(ROOT)

FLOAT32 = np.dtype("<f4")


class _Dequantize:
    """The op `dequantize` over a user's function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_out = takes_out(function)

    def __call__(self, params: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> serving.Reply:
        shape = tuple(params["shape"])
        run = _Run(self._function, params["encoding"], arrays["data"], shape, self._takes_out)
        first, seconds, unwritten = run.decode_first()
        if unwritten:
            return serving.Reply({"values": first}, seconds, unwritten)
        result = {}
        for _ in range(int(params.get("repeat", 1)) - 1):
            kept = np.array(first, copy=True)
            again, _ = run.decode()
            if unstable := _first_change(kept, again):
                result["unstable"] = unstable
                break
            first = kept
        return serving.Reply({"values": first}, seconds, result)


def takes_out(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter `out` that can be given by name. One whose signature is not known has none."""
    try:
        parameter = inspect.signature(function).parameters.get("out")
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )


class _Run:
    """One function on one input; every decode gets fresh guarded memory."""

    def __init__(
        self,
        function: Callable[..., Any],
        encoding: str,
        data: npt.NDArray[np.uint8],
        shape: tuple[int, ...],
        with_out: bool,
    ) -> None:
        self._function = function
        self._encoding = encoding
        self._data = data
        self._shape = shape
        self._with_out = with_out
        self._out: GuardedBuffer | None = None

    def decode(self) -> tuple[npt.NDArray[np.float32], float]:
        """The values and the seconds that the function took."""
        nbytes = FLOAT32.itemsize * int(np.prod(self._shape, dtype=np.int64))
        self._out = GuardedBuffer(nbytes) if self._with_out else None
        return self._call()

    def decode_first(self) -> tuple[npt.NDArray[np.float32], float, dict[str, int]]:
        """As `decode`, and how many elements of `out` were never written, the first of them too; empty when none."""
        values, seconds = self.decode()
        out = self._out
        if out is None or not np.may_share_memory(values, out.body) or not out.unwritten():
            return values, seconds, {}
        kept = np.array(values, copy=True)
        missed = never_written(out, self._call)
        return kept, seconds, {"unwritten": missed.size, "first": int(missed[0])} if missed.size else {}

    def _call(self) -> tuple[npt.NDArray[np.float32], float]:
        """Into the memory as it is."""
        given = guarded_copy(self._data)
        extra = {"out": self._out.array(FLOAT32, self._shape)} if self._out else {}
        start = perf_counter()
        returned = self._function(self._encoding, given.body, self._shape, **extra)
        seconds = perf_counter() - start
        if (overrun := given.overrun()) or not np.array_equal(given.body, self._data):
            raise serving.OutOfBounds(f"the subject {overrun or 'changed the bytes'} of its input")
        if self._out is not None and (overrun := self._out.overrun()):
            raise serving.OutOfBounds(f"the subject {overrun} of its output")
        if returned is None and self._out is not None:
            returned = extra["out"]
        return values_of(returned, self._shape), seconds


def values_of(returned: object, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """What a function returned, as the array that was asked for; nothing is converted. Raises `serving.Refusal`."""
    if returned is None:
        raise serving.Refusal("the function returned None")
    if isinstance(returned, Coroutine):
        returned.close()
    kind = type(returned).__name__[:80]
    if isinstance(returned, Iterator | Awaitable | AsyncIterator):
        raise serving.WrongDtype(f"the function returned a {kind}, wanted an array of float32")
    if isinstance(returned, ma.MaskedArray):
        raise serving.WrongDtype(f"the function returned a {kind}: its mask has no meaning here")
    array = np.asarray(returned)
    if array.dtype.newbyteorder("=").name not in serving.wire.DTYPES:
        raise serving.WrongDtype(f"the function returned {_dtype(array)} ({kind}), wanted float32")
    if array.shape != shape:
        raise serving.WrongShape(f"the result has the shape {list(array.shape)}, wanted {list(shape)}")
    if array.dtype != FLOAT32:
        raise serving.WrongDtype(f"the result is {_dtype(array)}, wanted float32")
    return array


def _dtype(array: npt.NDArray[Any]) -> str:
    return f"dtype {str(array.dtype)[:200]}"


def _first_change(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> str | None:
    """Where two runs on the same bytes differ, bit for bit, or None."""
    a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (before, after))
    changed = np.flatnonzero(a != b)
    if not changed.size:
        return None
    return f"{changed.size} bytes, the first in element {int(changed[0]) // before.dtype.itemsize}"


def keep_numpy() -> None:
    """Let the checks use numpy's functions as they are now: a subject may replace them by its own."""
    kept = SimpleNamespace(**vars(np))
    for names in (globals(), vars(guard), vars(serving), vars(serving.wire)):
        names["np"] = kept


def main(text: str) -> None:
    """Import the target and serve it; an import that fails is told on standard error, and the process ends with 1."""
    streams = serving.take_streams()
    target = parse_target(text)
    keep_numpy()
    functions = load_ops(target)
    makers: dict[str, Callable[[Callable[..., Any]], serving.Op]] = {"dequantize": _Dequantize}
    source = target.file.read_bytes() if target.file else text.encode("utf-8", "surrogateescape")
    serving.serve(
        serving.Provider(
            name=text,
            version=f"sha256:{hashlib.sha256(source).hexdigest()[:12]}",
            ops={op: makers[op](function) for op, function in functions.items() if op in makers},
            encodings={},
        ),
        streams,
    )


if __name__ == "__main__":
    main(sys.argv[1])
