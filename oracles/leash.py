"""Starting a process that cannot outlive the harness, not even when the harness is killed by SIGKILL.

A watch inside the child would not do: code that spins with the interpreter's lock held starves a thread, and Linux's
parent-death signal comes when the *thread* that started the child ends. So one guardian process per harness
(`oracles/guardian.py`) holds the other end of a pipe and ends everything when the pipe closes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracles import guardian

VARIABLE = "HARNESS_LEASH"
"""Tokens of the leashes that a process is on, outermost first: a harness inside a subject adds its own."""


class _Guardian:
    """The one guardian of this process, started when the first leash is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._held: dict[str, int] = {}

    def hold(self, token: str, group: int) -> None:
        with self._lock:
            self._held[token] = group
            self._tell(f"+{token} {group}\n")

    def release(self, token: str) -> None:
        with self._lock:
            if self._held.pop(token, None) is not None and self._process is not None:
                self._tell(f"-{token}\n")

    def _tell(self, line: str) -> None:
        try:
            if self._process is not None:
                self._write(line)
                return
        except OSError:
            self._stop()
        # The first leash, or the guardian was killed: a new one is told everything.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(guardian.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            start_new_session=True,
        )
        for token, group in self._held.items():
            self._write(f"+{token} {group}\n")

    def _write(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()

    def stop(self) -> None:
        """At the end of the harness: what is still held is ended."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """In a forked child: the pipe belongs to the parent, whose end must show."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            # Not its child: there is no status to collect.
            self._process.returncode = 0
        # A fresh lock too: another thread may have held the old one.
        self._lock, self._process, self._held = threading.Lock(), None, {}


_GUARDIAN = _Guardian()
atexit.register(_GUARDIAN.stop)
os.register_at_fork(after_in_child=_GUARDIAN.forget)


@dataclass(frozen=True)
class Leashed:
    """A process in a session of its own, and the token in its environment and in that of its descendants."""

    process: subprocess.Popen[Any]
    token: str

    def end(self) -> None:
        """Kill its group and, where /proc tells, what left the group.

        To be called before the leader's status is collected: until then nobody else can have its id.
        """
        if self.process.returncode is None:
            guardian.end_group(self.process.pid)
        # Whoever forks while we look is found by the next look.
        for _ in range(guardian.ROUNDS):
            if not guardian.end_bearers(self.token):
                break

    def release(self) -> None:
        """Say that it is gone."""
        _GUARDIAN.release(self.token)


def start(command: Sequence[str], *, env: Mapping[str, str] | None, **options: Any) -> Leashed:
    """As `subprocess.Popen`, on a leash. Raises OSError when it cannot be started."""
    variables = dict(os.environ if env is None else env)
    token = secrets.token_hex(12)
    variables[VARIABLE] = ",".join(filter(None, (os.environ.get(VARIABLE), token)))
    # Before it runs: a harness that is killed in between leaves a process that bears the token.
    _GUARDIAN.hold(token, 0)
    try:
        process = subprocess.Popen(command, env=variables, start_new_session=True, **options)
    except BaseException:
        _GUARDIAN.release(token)
        raise
    _GUARDIAN.hold(token, process.pid)
    return Leashed(process, token)
