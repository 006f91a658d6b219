"""What the lock reads about processes in `/proc`. Everything here is absent, not wrong, where there is no `/proc`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")

# Fields of /proc/<pid>/stat after the command's closing parenthesis (proc(5): 4 = ppid, 22 = starttime).
_PPID = 1
_START = 19


def _stat_field(pid: int, index: int) -> int | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[index])
    except (OSError, ValueError, IndexError):
        return None


def started(pid: int) -> int | None:
    """Start of the process in clock ticks since boot: with the pid, it names a process for good. None when gone."""
    return _stat_field(pid, _START)


def ancestors() -> Iterator[int]:
    """The parent of this process, its parent, and so on up to the first process of the pid namespace."""
    pid: int | None = os.getppid()
    while pid:
        yield pid
        pid = _stat_field(pid, _PPID)


def pids() -> list[int]:
    """Every process that this one can see."""
    try:
        return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def command(pid: int) -> str | None:
    """The command line as one line of text (not escaped), or None when the process is gone or hidden."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        text = b" ".join(words).decode("utf-8", "replace")
        return text or (PROC / str(pid) / "comm").read_text(errors="replace").strip() or None
    except OSError:
        return None


def pid_namespace() -> str:
    """`pid:[4026531836]` or the like: pids compare only inside one namespace. Empty where there is no `/proc`."""
    try:
        return str((PROC / "self/ns/pid").readlink())
    except OSError:
        return ""
