"""The process in which somebody else's Python runs, so that its crash, hang or stray write costs one case.

Started as `python -m harness.subjects.host TARGET`; speaks the protocol of docs/protocol.md. Input and output lie
between poisoned guard zones, and what it is given may be asked for twice to see whether the bits stay.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.guard import GuardedBuffer, guarded_copy
from harness.subjects.target import load_ops, parse_target
from oracles import serve as serving


class _Dequantize:
    """The op `dequantize` over a user's function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        parameters = inspect.signature(function).parameters
        self._takes_out = "out" in parameters

    def __call__(self, params: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> serving.Reply:
        shape = tuple(params["shape"])
        first, seconds = self._run(params["encoding"], arrays["data"], shape)
        result = {}
        for _ in range(int(params.get("repeat", 1)) - 1):
            kept = np.array(first, copy=True)
            again, _ = self._run(params["encoding"], arrays["data"], shape)
            if unstable := _first_change(kept, again):
                result["unstable"] = unstable
                break
            first = kept
        return serving.Reply({"values": first}, seconds, result)

    def _run(
        self, encoding: str, data: npt.NDArray[np.uint8], shape: tuple[int, ...]
    ) -> tuple[npt.NDArray[Any], float]:
        given = guarded_copy(data)
        out = GuardedBuffer(4 * int(np.prod(shape, dtype=np.int64))) if self._takes_out else None
        extra = {"out": out.array(np.float32, shape)} if out else {}
        start = time.perf_counter()
        returned = self._function(encoding, given.body, shape, **extra)
        seconds = time.perf_counter() - start
        if returned is None and out is not None:
            returned = extra["out"]
        if returned is None:
            raise serving.Refusal("the function returned None")
        if (overrun := given.overrun()) or not np.array_equal(given.body, data):
            raise serving.OutOfBounds(f"the subject {overrun or 'changed the bytes'} of its input")
        if out is not None and (overrun := out.overrun()):
            raise serving.OutOfBounds(f"the subject {overrun} of its output")
        return np.asarray(returned), seconds


def _first_change(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> str | None:
    """Where two runs on the same bytes differ, bit for bit, or None."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return f"{before.dtype}{list(before.shape)}, then {after.dtype}{list(after.shape)}"
    a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (before, after))
    changed = np.flatnonzero(a != b)
    if not changed.size:
        return None
    return f"{changed.size} bytes, the first in element {int(changed[0]) // before.dtype.itemsize}"


def _quietly(load: Callable[[], dict[str, Callable[..., Any]]]) -> dict[str, Callable[..., Any]]:
    """Run `load` with standard output turned to standard error: a print during the import must not reach the stream."""
    stream = os.dup(1)
    os.dup2(2, 1)
    try:
        return load()
    finally:
        sys.stdout.flush()
        os.dup2(stream, 1)
        os.close(stream)


def main(text: str) -> None:
    """Import the target and serve it; an import that fails is told on standard error, and the process ends with 1."""
    target = parse_target(text)
    functions = _quietly(lambda: load_ops(target))
    makers: dict[str, Callable[[Callable[..., Any]], serving.Op]] = {"dequantize": _Dequantize}
    source = target.file.read_bytes() if target.file else text.encode()
    serving.serve(
        serving.Provider(
            name=text,
            version=f"sha256:{hashlib.sha256(source).hexdigest()[:12]}",
            ops={op: makers[op](function) for op, function in functions.items() if op in makers},
            encodings={},
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
