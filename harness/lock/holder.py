"""Who holds a lock that is not free: from the kernel's list, else from the open descriptors, else from the record."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from harness.lock import proc, record
from harness.lock.descriptors import descriptors_of, holds
from harness.lock.listed import may_look, takers
from harness.lock.lockfile import identity
from harness.text import printable


@dataclass(frozen=True)
class Holder:
    """What is known of the process that holds `path`; `str()` of it is one escaped sentence for a person.

    `pid` None: no process that this one can see. `exclusive` None: unknown. `others`: further processes that share
    the lock. `kind` and `since` (seconds since the epoch) stand only where the holder left a record. `waited`:
    seconds that this process has waited so far.
    """

    path: Path
    pid: int | None
    command: str
    exclusive: bool | None
    others: int = 0
    kind: str | None = None
    since: float | None = None
    host: str | None = None
    waited: float = 0.0

    def __str__(self) -> str:
        how = {True: "exclusively ", False: "shared ", None: ""}[self.exclusive]
        who = "a process that is not visible from here" if self.pid is None else f"pid {self.pid}"
        if self.host is not None:
            who += f" of another pid namespace (host {printable(self.host)})"
        text = f"{printable(str(self.path))} is held {how}by {who}"
        if self.command:
            text += f": {printable(self.command)}"
        if self.others:
            text += f", and {self.others} more"
        if self.kind is not None:
            text += f" [{printable(self.kind)}]"
        if self.since is not None:
            text += f" for {max(0.0, time.time() - self.since):.0f} s"
        return text


def find(path: Path, fd: int, *, waited: float = 0.0) -> Holder:
    """Who holds the lock file that `fd` has open at `path`. Never raises: unknown is an answer."""
    listed = takers(fd)
    modes = set(listed.values())
    exclusive = modes.pop() if len(modes) == 1 else None
    wanted = identity(fd)
    pids = [pid for pid in listed if _alive_with(pid, wanted)]
    if not pids:
        # The process that took the lock has gone and left it to a child.
        pids = [pid for pid in proc.pids() if pid != os.getpid() and holds(pid, wanted)]
    left = record.read(fd)
    if left is not None and left.stale():
        left = None
    if pids:
        pid = pids[0]
        known = left if left is not None and left.pid == pid else None
        return Holder(
            path=path,
            pid=pid,
            command=proc.command(pid) or "",
            exclusive=exclusive,
            others=len(pids) - 1,
            kind=known.kind if known else None,
            since=known.since if known else None,
            waited=waited,
        )
    if left is not None:
        elsewhere = left.namespace != proc.pid_namespace()
        return Holder(
            path=path,
            pid=left.pid,
            command=left.command,
            exclusive=True,  # only an exclusive lock is recorded
            kind=left.kind,
            since=left.since,
            host=left.host if elsewhere else None,
            waited=waited,
        )
    return Holder(path=path, pid=None, command="", exclusive=exclusive, waited=waited)


def _alive_with(pid: int, wanted: tuple[int, int]) -> bool:
    """Whether `pid` lives and, as far as we may look, still has the file open: pids are used again."""
    if proc.started(pid) is None:
        return False
    return bool(descriptors_of(pid, wanted)) or not may_look(pid)
