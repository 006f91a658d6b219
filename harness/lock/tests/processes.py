"""Real processes that hold the lock, for the tests of this folder."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LIMIT = 60.0
"""Seconds after which a process of a test counts as hanging."""

HARNESS = (
    sys.executable,
    "-c",
    "from harness.cli import main; main()",
)

HOLD = """
import sys
from harness.lock import gpu_lock
with gpu_lock(sys.argv[1], sys.argv[2:], timeout=10) as held:
    print("held", held.recognised, flush=True)
    sys.stdin.readline()
    print(held.check(), flush=True)
"""


@dataclass(frozen=True)
class Processes:
    """Starts processes and kills what is left of them when the test ends."""

    stack: contextlib.ExitStack

    def start(self, command: Sequence[str], *, pass_fds: Sequence[int] = ()) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=tuple(pass_fds),
        )
        self.stack.callback(self._end, process)
        return process

    def holder(self, kind: str, *devices: str) -> subprocess.Popen[str]:
        """A process that holds the lock by now; it lets go when its stdin gets a line or ends."""
        process = self.start([sys.executable, "-c", HOLD, kind, *devices])
        assert process.stdout is not None
        assert process.stdout.readline() == "held False\n"
        return process

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate(timeout=LIMIT)


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)


def harness_lock(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run([*HARNESS, "lock", *arguments])


def flock_free(path: object, *options: str) -> bool:
    """Whether util-linux `flock` gets the lock at once."""
    return run(["flock", "-n", *options, str(path), "true"]).returncode == 0


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether `condition` comes true within the limit."""
    end = time.monotonic() + LIMIT
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return met
