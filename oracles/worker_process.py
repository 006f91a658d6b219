"""One worker process: started, asked, killed when it hangs, started again after it died.

The harness never waits for a worker without a deadline, never lets it choose how much is allocated, and turns
whatever it does wrong into a `ProviderError` that costs one case.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.text import printable
from harness.verdicts import Verdict
from oracles import leash, wire
from oracles.exchange import Exchange, Expected, Mismatch, Wanted
from oracles.tail import Tail
from oracles.wire import WireError

__all__ = ["Answer", "Expected", "ProviderError", "Unsupported", "Worker"]

PIPE_BYTES = 1 << 20
GRACE_SECONDS = 2.0
MESSAGE_LIMIT = 2000

_VERDICT_OF_KIND = {
    "out_of_bounds": Verdict.FAIL_OOB,
    "wrong_shape": Verdict.FAIL_SHAPE,
    "wrong_dtype": Verdict.FAIL_DTYPE,
}


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
        self._leashed: leash.Leashed | None = None
        self._stderr = Tail()
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
        process = self._process
        return process.pid if process is not None and not _has_ended(process) else None

    @property
    def _process(self) -> subprocess.Popen[bytes] | None:
        return None if self._leashed is None else self._leashed.process

    def stderr_tail(self) -> str:
        """The end of what the worker wrote to stderr (8 KiB at most), made safe for a terminal line by line."""
        return self._stderr_since(0)

    def _stderr_since(self, start: int) -> str:
        self._stderr.drain()
        raw = self._stderr.since(start)
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
            return self._ask(op, params or {}, arrays or {}, timeout, Wanted(expect, into or {}, limit))

    def close(self) -> None:
        """Ask the process to end, and end it. May be called more than once."""
        with self._lock:
            if self.pid is not None:
                with contextlib.suppress(ProviderError):
                    self._ask("shutdown", {}, {}, GRACE_SECONDS, Wanted({}, {}, 0))
            self._bury(kill=False)

    def _revive(self) -> None:
        self._bury(kill=True)
        # What it writes on the way to its first answer belongs to that answer.
        self._call_starts_at = self._stderr.total
        try:
            self._leashed = leash.start(
                self.command,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._cwd,
            )
        except OSError as error:
            raise ProviderError(
                Verdict.ERROR_RUN, f"{self.name} could not be started: {error.strerror or error}"
            ) from None
        process = self._leashed.process
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            if stream is not process.stderr:
                _widen_pipe(stream.fileno())
        assert process.stderr is not None
        self._stderr.attach(process.stderr.fileno())
        answer = self._ask("hello", {}, {}, self._start_timeout, Wanted({}, {}, 0))
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
        wanted: Wanted,
    ) -> Answer:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._next_id += 1
        pieces = wire.encode({"id": self._next_id, "op": op, "params": dict(params)}, arrays)
        exchange = Exchange(
            process.stdin.fileno(),
            process.stdout.fileno(),
            pieces,
            wanted,
            errors=self._stderr,
            ended=lambda: _has_ended(process),
        )
        in_step = False
        if op != "hello":
            self._stderr.drain()
            self._call_starts_at = self._stderr.total
        try:
            header, got = exchange.run(time.monotonic() + timeout)
            if header.get("id") != self._next_id:
                raise WireError(f"the answer has the id {str(header.get('id'))[:40]}, wanted {self._next_id}")
            in_step = exchange.sent_all
            return _answer_of(header, got, self.name, self._stderr_of_call)
        except TimeoutError:
            self._bury(kill=True)
            raise self._failure(Verdict.TIMEOUT, f"no answer to {op} within {timeout:g} s") from None
        except Mismatch as mismatch:
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

    def _failure(self, verdict: Verdict, message: str) -> ProviderError:
        return ProviderError(
            verdict, printable(f"{self.name} {message}", MESSAGE_LIMIT), self._stderr_of_call()
        )

    def _stderr_of_call(self) -> str:
        return self._stderr_since(self._call_starts_at)

    def _bury(self, *, kill: bool) -> str:
        """Make sure that the process is gone, and what it left behind with it; says how it ended."""
        leashed, self._leashed = self._leashed, None
        if leashed is None:
            return "it was not running"
        process = leashed.process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        deadline = time.monotonic() + (0 if kill else GRACE_SECONDS)
        while not _has_ended(process) and time.monotonic() < deadline:
            self._stderr.drain()
            time.sleep(0.002)
        # The group holds what the engine itself may have started; it outlives its leader.
        leashed.end()
        leashed.release()
        status = process.wait()
        self._stderr.detach()
        if process.stderr is not None:
            process.stderr.close()
        if status >= 0:
            return f"exit status {status}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}"
        return f"killed by signal {-status}"


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended, without collecting its status where the system can tell (macOS before Python 3.13 cannot)."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


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


def _widen_pipe(fd: int) -> None:
    """A larger pipe means fewer switches between the two processes. Linux only, and never necessary."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
