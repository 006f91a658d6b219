"""A line that the holder of an exclusive lock leaves in the lock file, so that others can say who it is.

The kernel's own list is better (`holder.py`), but it does not show processes of another pid namespace: two
containers that share the lock file see each other only through this record. It is display alone; no decision
depends on it, since anybody who may write the file may write the record.

The record has a fixed length and is written over itself: the file is never truncated.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass
from typing import TypeVar

from harness.lock import proc

T = TypeVar("T")

MAGIC = b"harness-gpu-lock "
SIZE = 4096
_COMMAND = 300


@dataclass(frozen=True)
class Record:
    """Who holds the lock. `since` in seconds since the epoch; `started` in clock ticks since boot, 0 if unknown."""

    pid: int
    started: int
    namespace: str
    host: str
    kind: str
    since: float
    command: str

    def stale(self) -> bool:
        """Whether this is a process of our own pid namespace that has ended: it crashed and left its record."""
        return self.namespace == proc.pid_namespace() != "" and proc.started(self.pid) != self.started


def current(kind: str) -> Record:
    """The record of this process."""
    pid = os.getpid()
    return Record(
        pid=pid,
        started=proc.started(pid) or 0,
        namespace=proc.pid_namespace(),
        host=socket.gethostname(),
        kind=kind,
        since=time.time(),
        command=(proc.command(pid) or " ".join(sys.argv))[:_COMMAND],
    )


def write(fd: int, record: Record | None) -> None:
    """Leave `record` (None: nobody) in the file, if the file is ours and holds nothing but such a record.

    Failing to is no fault: the lock does not depend on it.
    """
    body = b"" if record is None else json.dumps(asdict(record)).encode("ascii")
    line = (MAGIC + body).ljust(SIZE - 1) + b"\n"
    with contextlib.suppress(OSError):
        if len(line) == SIZE and _ours(fd):
            os.pwrite(fd, line, 0)


def _ours(fd: int) -> bool:
    status = os.fstat(fd)
    # A second name (a hard link) means that the file is something else as well.
    if status.st_uid != os.geteuid() or status.st_nlink != 1:
        return False
    return status.st_size == 0 or (status.st_size == SIZE and os.pread(fd, len(MAGIC), 0) == MAGIC)


def read(fd: int) -> Record | None:
    """The record in the file; None when there is none, or when something else stands there."""
    try:
        data = os.pread(fd, SIZE, 0)
    except OSError:
        return None
    if len(data) != SIZE or not data.startswith(MAGIC):
        return None
    try:
        fields = json.loads(data[len(MAGIC) :])
        # A bool is an int in Python, and json reads NaN: neither is a pid or a time.
        record = Record(
            pid=_checked(fields["pid"], int),
            started=_checked(fields["started"], int),
            namespace=_checked(fields["namespace"], str),
            host=_checked(fields["host"], str),
            kind=_checked(fields["kind"], str),
            since=_checked(fields["since"], float),
            command=_checked(fields["command"], str),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if record.pid > 0 and abs(record.since) < 1e12 else None


def _checked(value: object, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError
    return value
