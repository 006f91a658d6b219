"""The kernel's list of locks: which processes took a flock on a file, whoever they belong to.

It names the process that took the lock, which may have ended and left it to a child, and it does not show the
processes of other pid namespaces.
"""

from __future__ import annotations

import os

from harness.lock import proc
from harness.lock.lockfile import identity


def takers(fd: int) -> dict[int, bool]:
    """pid -> exclusive, for the flocks that the kernel lists on the file of `fd`."""
    try:
        lines = (proc.PROC / "locks").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    inode = str(identity(fd)[1])
    devices = _devices(fd)
    found = {}
    for line in lines:
        words = (
            line.split()
        )  # 7: FLOCK ADVISORY WRITE 4711 fe:00:2162978 0 EOF; a waiter has "->" before FLOCK
        if len(words) < 6 or words[1] != "FLOCK" or not words[4].isdigit():
            continue
        device, _, number = words[5].rpartition(":")
        if number == inode and device in devices and int(words[4]) > 0:
            found[int(words[4])] = words[3] == "WRITE"
    return found


def _devices(fd: int) -> set[str]:
    """The file system as the list names it. On btrfs and overlayfs that is the mount's device, not st_dev."""
    number = identity(fd)[0]
    names = {f"{os.major(number):02x}:{os.minor(number):02x}"}
    try:
        info = (proc.PROC / "self/fdinfo" / str(fd)).read_text()
        mount = next(line.split()[1] for line in info.splitlines() if line.startswith("mnt_id:"))
        for line in (proc.PROC / "self/mountinfo").read_text(errors="replace").splitlines():
            words = line.split()
            if words[0] == mount:
                major, minor = words[2].split(":")
                names.add(f"{int(major):02x}:{int(minor):02x}")
    except (OSError, StopIteration, ValueError, IndexError):
        pass  # without the mount table the usual st_dev has to do
    return names


def may_look(pid: int) -> bool:
    """Whether this process may see the descriptors of process `pid`; not those of another user's."""
    return os.access(proc.PROC / str(pid) / "fd", os.R_OK)
