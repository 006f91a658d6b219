"""The process that outlives a killed harness for as long as it takes to end what the harness had started.

It reads lines from standard input, whose other end only the harness holds: `+TOKEN GROUP` for a process group to end,
`-TOKEN` for one that is gone. When the stream ends, by whatever signal, every group that is left is killed, and every
process whose environment holds the token: a child that left its group too. Run by path, the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

ROUNDS = 10
ROUND_SECONDS = 0.05
"""A process that was just being started shows its token only after its exec: look again for half a second."""


def bearing(token: str) -> list[int]:
    """Processes whose environment holds the token, this one left out. Empty where there is no /proc."""
    wanted, found = token.encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def end_group(group: int) -> None:
    """Kill a process group that may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def end_bearers(token: str) -> bool:
    """Kill what bears the token; whether there was any."""
    found = bearing(token)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    held: dict[str, int] = {}
    for line in sys.stdin:
        token, _, group = line[1:].strip().partition(" ")
        if line.startswith("-"):
            held.pop(token, None)
        elif token:
            held[token] = int(group or 0)
    for group in held.values():
        if group > 1:
            end_group(group)
    for _ in range(ROUNDS if held else 0):
        for token in held:
            end_bearers(token)
        time.sleep(ROUND_SECONDS)


if __name__ == "__main__":
    main()
