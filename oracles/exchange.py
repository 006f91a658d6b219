"""One request and its answer over two pipes: within a deadline, and into no more memory than was asked for."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.verdicts import Verdict
from oracles import wire
from oracles.tail import Tail
from oracles.wire import ArraySpec, WireError

LOOK_SECONDS = 0.05
"""How often to see whether the process lives: a child of its may hold the pipe open, and no end of it comes."""

Expected = Mapping[str, tuple[str, tuple[int, ...]]]
"""The arrays that an answer has to hold, by name: dtype and shape."""


class Mismatch(Exception):
    """The answer announces an array that was not asked for, or of another dtype or shape."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict


@dataclass(frozen=True)
class Wanted:
    """What an answer may hold, checked against its header before anything is allocated."""

    expect: Expected | None
    into: Mapping[str, np.ndarray]
    limit: int

    def allocate(self, specs: Sequence[ArraySpec]) -> dict[str, np.ndarray]:
        if self.expect is not None:
            self._compare(self.expect, {spec.name: spec for spec in specs})
        if (total := sum(spec.nbytes for spec in specs)) > self.limit:
            raise WireError(f"arrays of {total} bytes are over the limit of {self.limit}")
        return {spec.name: self._buffer(spec) for spec in specs}

    def _compare(self, expect: Expected, specs: Mapping[str, ArraySpec]) -> None:
        for name in sorted(set(expect) ^ set(specs)):
            what = "is missing" if name in expect else "was not asked for"
            raise Mismatch(Verdict.FAIL_SHAPE, f"the array {name!r} {what}")
        for name, (dtype, shape) in expect.items():
            if specs[name].shape != tuple(shape):
                raise Mismatch(
                    Verdict.FAIL_SHAPE,
                    f"the array {name!r} has the shape {list(specs[name].shape)}, wanted {list(shape)}",
                )
            if specs[name].dtype != dtype:
                raise Mismatch(
                    Verdict.FAIL_DTYPE, f"the array {name!r} is {specs[name].dtype}, wanted {dtype}"
                )

    def _buffer(self, spec: ArraySpec) -> np.ndarray:
        given = self.into.get(spec.name)
        if given is None:
            return spec.allocate()
        if given.dtype != np.dtype(spec.dtype) or given.shape != spec.shape or not given.flags.c_contiguous:
            raise ValueError(
                f"the array given for {spec.name!r} is not a contiguous {spec.dtype} {spec.shape}"
            )
        return given


class Exchange:
    """One request and its answer over two non-blocking pipes, both moved on at once, within a deadline.

    What the process writes to `errors` is taken in meanwhile; `ended` tells whether it has ended.
    """

    def __init__(
        self,
        to: int,
        back: int,
        pieces: list[memoryview],
        wanted: Wanted,
        *,
        errors: Tail,
        ended: Callable[[], bool],
    ) -> None:
        self._to = to
        self._back = back
        self._errors = errors
        self._ended = ended
        self._pieces = [piece for piece in pieces if len(piece)][::-1]
        self._wanted = wanted

    @property
    def sent_all(self) -> bool:
        return not self._pieces

    def run(self, deadline: float) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The answer's header and arrays. Raises TimeoutError, EOFError, WireError, Mismatch."""
        with selectors.DefaultSelector() as self._selector:
            self._selector.register(self._back, selectors.EVENT_READ)
            self._selector.register(self._to, selectors.EVENT_WRITE)
            self._errors_fd = self._errors.fd
            if self._errors_fd is not None:
                self._selector.register(self._errors_fd, selectors.EVENT_READ)
            self._deadline = deadline
            prefix = bytes(self._receive(bytearray(wire.PREFIX_BYTES)))
            header = wire.parse_header(bytes(self._receive(bytearray(wire.header_length(prefix)))))
            specs = wire.parse_specs(header)
            if header.get("ok") is not True and specs:
                raise WireError("an answer that is not ok holds arrays")
            arrays = self._wanted.allocate(specs) if header.get("ok") is True else {}
            for array in arrays.values():
                self._receive(wire.as_bytes(array))
            return header, arrays

    def _receive(self, into: bytearray | memoryview) -> bytearray | memoryview:
        view, at = memoryview(into), 0
        while at < len(view):
            try:
                got = os.readv(self._back, [view[at:]])
            except BlockingIOError:
                self._wait()
                continue
            if not got:
                raise EOFError
            at += got
        return into

    def _wait(self) -> None:
        """Send what can be sent, until there is something to read. Raises EOFError when the process has ended."""
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            # Asked first, so that what it wrote before its end is there to be read.
            ended = self._ended()
            ready = {key.fd for key, _ in self._selector.select(0 if ended else min(left, LOOK_SECONDS))}
            if self._to in ready:
                self._send()
            if self._errors_fd in ready:
                self._take_errors()
            if self._back in ready:
                return
            if ended:
                raise EOFError

    def _take_errors(self) -> None:
        if not self._errors.read() and self._errors.fd is None and self._errors_fd is not None:
            self._selector.unregister(self._errors_fd)
            self._errors_fd = None

    def _send(self) -> None:
        try:
            while self._pieces:
                piece = self._pieces.pop()
                rest = piece[os.write(self._to, piece) :]
                if rest:
                    self._pieces.append(rest)
        except BlockingIOError:
            self._pieces.append(piece)
            return
        except BrokenPipeError:
            # It may have said why before it stopped reading: read on, the end of its stream comes next.
            self._pieces.append(piece)
        self._selector.unregister(self._to)
