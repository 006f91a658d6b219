"""Which descriptors really hold a flock: our own, those that we inherited, and those of the processes above us.

A flock belongs to the open file description, so an inherited descriptor of a locked file is the lock itself, while
a descriptor of the same file that somebody merely opened holds nothing. Linux tells them apart in
`/proc/<pid>/fdinfo/<fd>`: a `lock:` line stands only there where this very open file description holds the lock.

The processes above are looked at as well, because a descriptor does not survive every way of starting a process:
Python's `subprocess`, and with it pytest-xdist, closes all but the standard three.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness.errors import Unavailable
from harness.lock import proc
from harness.lock.listed import may_look, takers
from harness.lock.lockfile import Identity, identity, open_lock, try_lock


@dataclass(frozen=True)
class Descriptor:
    """A descriptor that holds a flock. `pid` is None for one of this process, else the process above that has it.

    `fd` is None where a process above took the lock, by the kernel's list, but belongs to another user, whose
    descriptors we may not see (as below `sudo -u`).
    """

    fd: int | None
    exclusive: bool
    pid: int | None = None
    started: int | None = None


def recognised(path: Path, fd: int) -> Descriptor | None:
    """The descriptor under which this process already works, for the lock file at `path` that `fd` has open.

    `fd` itself is left out. Own descriptors come before those of a process above.
    """
    wanted = identity(fd)
    for own in _own_descriptors():
        if own == fd or _identity_of(None, own) != wanted:
            continue
        exclusive = lock_mode(path, own)
        if exclusive is not None:
            return Descriptor(own, exclusive)
    listed = takers(fd)
    for pid in proc.ancestors():
        for theirs in descriptors_of(pid, wanted):
            exclusive = _mode_from_proc(pid, theirs)
            if exclusive is not None:
                return Descriptor(theirs, exclusive, pid, proc.started(pid))
        if pid in listed and not may_look(pid):
            return Descriptor(None, listed[pid], pid, proc.started(pid))
    return None


def lock_mode(path: Path, fd: int) -> bool | None:
    """True when the open file description of `fd` holds its flock exclusively, False when shared, None when not."""
    if (proc.PROC / "self/fdinfo" / str(fd)).exists():
        return _mode_from_proc(None, fd)
    return _mode_from_probe(path, fd)


def lost(path: Path, held: Descriptor, wanted: Identity, *, exclusive: bool) -> str | None:
    """Why `held` no longer holds the file of `wanted` (at least shared, or `exclusive`); None while it does."""
    if held.pid is not None and proc.started(held.pid) != held.started:
        return f"process {held.pid}, which held the lock for this one, has ended"
    if held.fd is not None and _identity_of(held.pid, held.fd) != wanted:
        return f"descriptor {held.fd} of process {held.pid or os.getpid()} was closed or is another file now"
    mode = _mode_now(path, held)
    if mode is None:
        return f"process {held.pid or os.getpid()} no longer holds the lock: it was released"
    if exclusive and not mode:
        return "the lock was exclusive and is only shared now"
    return None


def _mode_now(path: Path, held: Descriptor) -> bool | None:
    if held.pid is None:
        return None if held.fd is None else lock_mode(path, held.fd)
    if held.fd is not None:
        return _mode_from_proc(held.pid, held.fd)
    try:
        fd = open_lock(path)
    except Unavailable:
        return None
    try:
        return takers(fd).get(held.pid)
    finally:
        os.close(fd)


def descriptors_of(pid: int, wanted: Identity) -> list[int]:
    """The descriptors with which process `pid` has the file of `wanted` open; none when it is gone or not ours."""
    try:
        numbers = [int(entry.name) for entry in (proc.PROC / str(pid) / "fd").iterdir()]
    except OSError:
        return []
    return [number for number in numbers if _identity_of(pid, number) == wanted]


def holds(pid: int, wanted: Identity) -> bool:
    """Whether process `pid` keeps the flock on the file of `wanted` alive."""
    return any(_mode_from_proc(pid, fd) is not None for fd in descriptors_of(pid, wanted))


def _own_descriptors() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/dev/fd").iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _identity_of(pid: int | None, fd: int) -> Identity | None:
    try:
        status = os.fstat(fd) if pid is None else (proc.PROC / str(pid) / "fd" / str(fd)).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _mode_from_proc(pid: int | None, fd: int) -> bool | None:
    try:
        text = (proc.PROC / (str(pid) if pid else "self") / "fdinfo" / str(fd)).read_text(errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        words = line.split()  # lock: 1: FLOCK ADVISORY WRITE 4711 fe:00:2162978 0 EOF
        if len(words) > 4 and words[0] == "lock:" and words[2] == "FLOCK":
            return words[4] == "WRITE"
    return None


def _mode_from_probe(path: Path, fd: int) -> bool | None:
    """The same answer where the kernel does not list locks (macOS), from what a second open file can still take.

    Only after a second open file was refused is `fd` asked for the mode that it must then hold already; asking for
    what one holds changes nothing. (Asking first could take a free lock, or lose a shared one on the way up.)
    """
    try:
        probe = open_lock(path)
    except Unavailable:
        return None
    try:
        if identity(probe) != _identity_of(None, fd):
            return None
        if not try_lock(probe, exclusive=False):
            return True if try_lock(fd, exclusive=True) else None
        if not try_lock(probe, exclusive=True):
            return False if try_lock(fd, exclusive=False) else None
        return None
    finally:
        os.close(probe)
