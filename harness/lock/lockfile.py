"""One lock file: opened without following links, never truncated, locked with flock(2), checked to be still there.

`filelock` is our library for locks, but it neither shares a lock nor recognises one that a parent process holds,
and its lock is not the one that `flock FILE CMD` takes. So this module calls `fcntl.flock` itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

from harness.errors import Unavailable
from harness.lock.paths import VARIABLE
from harness.text import printable

# O_NONBLOCK: opening a FIFO that somebody put there must not hang. It means nothing for a regular file.
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

# flock(2) needs an open file, not a writable one: other users lock what they may read.
_MODE = 0o644

_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)

Identity = tuple[int, int]
"""(st_dev, st_ino): which file, whatever its name."""


def open_lock(path: Path) -> int:
    """A descriptor of the regular file at `path`, made when absent. Raises Unavailable for anything else there."""
    # An existing file is opened without O_CREAT: under fs.protected_regular the kernel refuses O_CREAT on another
    # user's file in a sticky folder such as /tmp, and that other user's lock is the one that we have to respect.
    for _ in range(100):
        try:
            fd = _open_existing(path)
        except FileNotFoundError:
            try:
                fd = os.open(path, _FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE)
            except FileExistsError:
                continue
            except OSError as error:
                raise _cannot(path, error) from error
            os.fchmod(fd, _MODE)  # whatever the umask took away, other users have to be able to lock
        except OSError as error:
            raise _cannot(path, error) from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Unavailable(f"the lock file {printable(str(path))} is not a regular file; {_REMEDY}")
        return fd
    raise Unavailable(f"the lock file {printable(str(path))} appears and disappears all the time")


_REMEDY = f"remove it or set {VARIABLE} to another path"


def _open_existing(path: Path) -> int:
    try:
        return os.open(path, _FLAGS | os.O_RDWR)
    except PermissionError:
        return os.open(path, _FLAGS | os.O_RDONLY)


def _cannot(path: Path, error: OSError) -> Unavailable:
    shown = printable(str(path))
    if path.is_symlink():
        target = printable(str(path.readlink()))
        return Unavailable(
            f"the lock file {shown} is a symbolic link to {target} and is not followed; {_REMEDY}"
        )
    if error.errno in (errno.EISDIR, errno.ENXIO):
        return Unavailable(f"the lock file {shown} is not a regular file; {_REMEDY}")
    return Unavailable(f"the lock file {shown} cannot be opened: {error.strerror}; set {VARIABLE}")


def identity(fd: int) -> Identity:
    """Which file `fd` is."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def try_lock(fd: int, *, exclusive: bool) -> bool:
    """Take the lock now or say that it is not free."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise Unavailable(
            f"the file system of the lock file cannot lock: {error.strerror}; {_REMEDY}"
        ) from error
    return True


def unlock(fd: int) -> None:
    """Give the lock up, for every process that shares this open file."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def misplaced(path: Path, wanted: Identity) -> str | None:
    """Why the file of `wanted` is no longer the one that the next process would lock at `path`; None when it is."""
    shown = printable(str(path))
    try:
        status = path.lstat()
    except OSError as error:
        return f"the lock file {shown} is gone ({error.strerror})"
    if stat.S_ISLNK(status.st_mode):
        return f"the lock file {shown} was replaced by a symbolic link"
    if (status.st_dev, status.st_ino) != wanted:
        return f"the lock file {shown} was replaced by another file"
    return None
