"""One worker process: started, asked, killed when it hangs, started again after it died.

The harness never waits for a worker without a deadline, never lets it choose how much is allocated, and turns
whatever it does wrong into a `ProviderError` that costs one case.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from harness.text import printable
from harness.verdicts import Verdict
from oracles import wire
from oracles.wire import ArraySpec, WireError

PIPE_BYTES = 1 << 20
STDERR_TAIL_BYTES = 8 << 10
STDERR_KEPT_BYTES = 4 << 20
GRACE_SECONDS = 2.0
MESSAGE_LIMIT = 2000

_VERDICT_OF_KIND = {"out_of_bounds": Verdict.FAIL_OOB}


class ProviderError(Exception):
    """A worker failed at one call: the verdict, a message for a person, and the end of what it wrote to stderr."""

    def __init__(self, verdict: Verdict, message: str, stderr: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.stderr = stderr
        self.kind = kind


class Unsupported(ProviderError):
    """The provider does not offer this op for this encoding: NOT_RUN, and no fault of anybody."""

    def __init__(self, message: str, stderr: str = "") -> None:
        super().__init__(Verdict.NOT_RUN, message, stderr, "unsupported")


@dataclass(frozen=True)
class Answer:
    """What an op gave back: its result, its arrays by name, and the seconds that the op alone took."""

    result: dict[str, Any]
    arrays: dict[str, np.ndarray]
    seconds: float


Expected = Mapping[str, tuple[str, tuple[int, ...]]]
"""The arrays that an answer has to hold, by name: dtype and shape."""


class Worker:
    """A process that speaks the protocol of `oracles.wire` on its standard input and output.

    Safe to share between threads: calls wait for one another. Use `Worker.start`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        timeout: float,
        env: Mapping[str, str] | None,
        cwd: str | Path | None,
    ) -> None:
        self.command = tuple(command)
        self.name = name
        self.hello: dict[str, Any] = {}
        self._start_timeout = timeout
        self._env = None if env is None else dict(env)
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._next_id = 0
        self._call_starts_at = 0
        self._lock = threading.RLock()

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        name: str,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> Worker:
        """Start the process and greet it; `hello` then holds what it offers. Raises ProviderError.

        `timeout` (seconds) limits this start and every later one; `env` is the whole environment of the process.
        """
        worker = cls(command, name=name, timeout=timeout, env=env, cwd=cwd)
        try:
            worker._revive()
        except BaseException:
            worker.close()
            raise
        return worker

    @property
    def pid(self) -> int | None:
        """The process id while it lives, else None."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def stderr_tail(self) -> str:
        """The end of what the worker wrote to stderr (8 KiB at most), made safe for a terminal line by line."""
        return self._stderr_since(0)

    def _stderr_size(self) -> int:
        return 0 if self._stderr is None or self._stderr.closed else os.fstat(self._stderr.fileno()).st_size

    def _stderr_since(self, start: int) -> str:
        size = self._stderr_size()
        if self._stderr is None or size == 0:
            return ""
        raw = os.pread(self._stderr.fileno(), STDERR_TAIL_BYTES, max(start, size - STDERR_TAIL_BYTES))
        return "\n".join(printable(line, 400) for line in raw.decode("utf-8", "replace").splitlines())

    def call(
        self,
        op: str,
        params: Mapping[str, Any] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        *,
        timeout: float,
        expect: Expected | None = None,
        into: Mapping[str, np.ndarray] | None = None,
        limit: int = wire.MAX_ARRAY_BYTES,
    ) -> Answer:
        """Ask for one op. A worker that is dead is started again first.

        `expect` names the arrays that the answer must hold and refuses any other before it is allocated; `into`
        gives contiguous arrays to read them into instead of new ones; `limit` bounds all arrays of an answer
        together (bytes). Raises ProviderError (FAIL_SHAPE, FAIL_DTYPE, TIMEOUT, ERROR_RUN, FAIL_OOB) and
        Unsupported.
        """
        with self._lock:
            if self.pid is None:
                self._revive()
            return self._ask(op, params or {}, arrays or {}, timeout, _Wanted(expect, into or {}, limit))

    def close(self) -> None:
        """Ask the process to end, and end it. May be called more than once."""
        with self._lock:
            if self.pid is not None:
                with contextlib.suppress(ProviderError):
                    self._ask("shutdown", {}, {}, GRACE_SECONDS, _Wanted({}, {}, 0))
            self._bury(kill=False)
            if self._stderr is not None:
                self._stderr.close()

    def _revive(self) -> None:
        self._bury(kill=True)
        if self._stderr is None or self._stderr.closed:
            self._stderr = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115  lives as long as the worker
            # Append mode, so that the file can be cut while the worker goes on writing.
            fcntl.fcntl(self._stderr.fileno(), fcntl.F_SETFL, os.O_APPEND)
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise ProviderError(
                Verdict.ERROR_RUN, f"{self.name} could not be started: {error.strerror or error}"
            ) from None
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            _widen_pipe(stream.fileno())
        answer = self._ask("hello", {}, {}, self._start_timeout, _Wanted({}, {}, 0))
        if answer.result.get("protocol") != wire.PROTOCOL:
            self._bury(kill=True)
            raise ProviderError(
                Verdict.ERROR_RUN,
                f"{self.name} speaks protocol {str(answer.result.get('protocol'))[:20]}, wanted {wire.PROTOCOL}",
            )
        self.hello = answer.result

    def _ask(
        self,
        op: str,
        params: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        timeout: float,
        wanted: _Wanted,
    ) -> Answer:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._next_id += 1
        pieces = wire.encode({"id": self._next_id, "op": op, "params": dict(params)}, arrays)
        exchange = _Exchange(process.stdin.fileno(), process.stdout.fileno(), pieces, wanted)
        in_step = False
        self._call_starts_at = self._stderr_size()
        try:
            header, got = exchange.run(time.monotonic() + timeout)
            if header.get("id") != self._next_id:
                raise WireError(f"the answer has the id {str(header.get('id'))[:40]}, wanted {self._next_id}")
            in_step = exchange.sent_all
            return _answer_of(header, got, self.name, self._stderr_of_call)
        except TimeoutError:
            self._bury(kill=True)
            raise self._failure(Verdict.TIMEOUT, f"no answer to {op} within {timeout:g} s") from None
        except _Mismatch as mismatch:
            self._bury(kill=True)
            raise self._failure(mismatch.verdict, f"{op}: {mismatch}") from None
        except WireError as error:
            self._bury(kill=True)
            raise self._failure(
                Verdict.ERROR_RUN, f"answered {op} with bytes that are no answer: {error}"
            ) from None
        except EOFError:
            how = self._bury(kill=False)
            raise self._failure(Verdict.ERROR_RUN, f"died during {op}: {how}") from None
        finally:
            # A stream that is not at the start of a frame is of no use, whatever stopped us (Ctrl-C too).
            if not in_step:
                self._bury(kill=True)
            self._cut_stderr()

    def _failure(self, verdict: Verdict, message: str) -> ProviderError:
        return ProviderError(
            verdict, printable(f"{self.name} {message}", MESSAGE_LIMIT), self._stderr_of_call()
        )

    def _stderr_of_call(self) -> str:
        return self._stderr_since(self._call_starts_at)

    def _bury(self, *, kill: bool) -> str:
        """Make sure that the process is gone; says how it ended."""
        process, self._process = self._process, None
        if process is None:
            return "it was not running"
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        if not kill:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
        # The group holds what the engine itself may have started; it outlives its leader.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
        if status >= 0:
            return f"exit status {status}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}"
        return f"killed by signal {-status}"

    def _cut_stderr(self) -> None:
        if self._stderr is not None and not self._stderr.closed:
            fd = self._stderr.fileno()
            if os.fstat(fd).st_size > STDERR_KEPT_BYTES:
                os.ftruncate(fd, 0)


def _answer_of(
    header: dict[str, Any], arrays: dict[str, np.ndarray], name: str, stderr: Callable[[], str]
) -> Answer:
    if header.get("ok") is True:
        result, seconds = header.get("result", {}), header.get("seconds", 0.0)
        if not isinstance(result, dict) or not isinstance(seconds, int | float):
            raise WireError("'result' must be an object and 'seconds' a number")
        return Answer(result, arrays, float(seconds))
    error = header.get("error")
    if header.get("ok") is not False or not isinstance(error, dict):
        raise WireError("an answer is either ok with a result or not ok with an error")
    kind = str(error.get("kind"))
    message = printable(f"{name}: {error.get('message')}", MESSAGE_LIMIT)
    if kind == "unsupported":
        raise Unsupported(message, stderr())
    raise ProviderError(_VERDICT_OF_KIND.get(kind, Verdict.ERROR_RUN), message, stderr(), kind)


class _Mismatch(Exception):
    """The answer announces an array that was not asked for, or of another dtype or shape."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict


@dataclass(frozen=True)
class _Wanted:
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
            raise _Mismatch(Verdict.FAIL_SHAPE, f"the array {name!r} {what}")
        for name, (dtype, shape) in expect.items():
            if specs[name].shape != tuple(shape):
                raise _Mismatch(
                    Verdict.FAIL_SHAPE,
                    f"the array {name!r} has the shape {list(specs[name].shape)}, wanted {list(shape)}",
                )
            if specs[name].dtype != dtype:
                raise _Mismatch(
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


class _Exchange:
    """One request and its answer over two non-blocking pipes, both moved on at once, within a deadline."""

    def __init__(self, to: int, back: int, pieces: list[memoryview], wanted: _Wanted) -> None:
        self._to = to
        self._back = back
        self._pieces = [piece for piece in pieces if len(piece)][::-1]
        self._wanted = wanted

    @property
    def sent_all(self) -> bool:
        return not self._pieces

    def run(self, deadline: float) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The answer's header and arrays. Raises TimeoutError, EOFError, WireError, _Mismatch."""
        with selectors.DefaultSelector() as self._selector:
            self._selector.register(self._back, selectors.EVENT_READ)
            self._selector.register(self._to, selectors.EVENT_WRITE)
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
        """Send what can be sent, until there is something to read."""
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            ready = {key.fd for key, _ in self._selector.select(left)}
            if self._to in ready:
                self._send()
            if self._back in ready:
                return

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


def _widen_pipe(fd: int) -> None:
    """A larger pipe means fewer switches between the two processes. Linux only, and never necessary."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
