"""Taking, checking and releasing the GPU lock.

Who holds what, with `/tmp/gpu` as the lock:

- a timed series: `/tmp/gpu` exclusively;
- correctness work: `/tmp/gpu.<uuid>` of each of its devices exclusively, and `/tmp/gpu` shared;
- either, below a process that already holds `/tmp/gpu` exclusively: that lock is recognised and not taken again.
  So that two series below one lock do not run side by side, they take turns on `/tmp/gpu-turn`: exclusively for a
  timed series, shared for correctness work.

Device files come first, so that work that queues for a device does not keep timed series out meanwhile. The order is
the same for everybody (devices sorted, the lock, the turn), so that two requests never wait for each other.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from harness.errors import Unavailable, UsageProblem
from harness.lock import descriptors, holder, lockfile, paths, record
from harness.lock.descriptors import Descriptor
from harness.lock.holder import Holder
from harness.text import printable

Kind = Literal["timed", "correctness"]

# flock(2) cannot wait with a limit (but by a signal, which is the caller's), so we ask again at growing intervals.
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25
# Two cases that follow each other closely are no news.
_REPORT_AFTER = 0.2
_REPORT_EVERY = 1.0


@dataclass(frozen=True)
class LockedFile:
    """One lock file that this work relies on: locked by us through `fd`, or (`fd` None) recognised as held for us."""

    path: Path
    identity: lockfile.Identity
    exclusive: bool
    descriptor: Descriptor
    fd: int | None

    def lost(self) -> str | None:
        """Why the lock no longer protects; None while it does."""
        return lockfile.misplaced(self.path, self.identity) or descriptors.lost(
            self.path, self.descriptor, self.identity, exclusive=self.exclusive
        )


@dataclass(frozen=True)
class Held:
    """A lock that is held. The threads of a process share it: it does not keep them apart.

    `recognised`: the lock itself was held for this process already and was not taken again. `owner`: the pid of the
    process that took the rest.
    """

    kind: Kind
    devices: tuple[str, ...]
    files: tuple[LockedFile, ...]
    recognised: bool
    owner: int

    def check(self) -> str | None:
        """Why the lock was lost, or None while it holds.

        Called before and after each arm of a timed series: an arm between two calls that both gave None ran under
        the lock, anything else is VOID. Never raises.
        """
        return next((reason for file in self.files if (reason := file.lost()) is not None), None)

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """For `subprocess.Popen(pass_fds=…)`: a child that has them keeps the lock when this process dies."""
        own = (file.descriptor for file in self.files if file.descriptor.pid is None)
        return tuple(descriptor.fd for descriptor in own if descriptor.fd is not None)

    def release(self, *, unlock: bool = True) -> None:
        """Close what was taken. `unlock=False` leaves the lock to the processes that inherited it.

        In a child made by fork only the child's copies are closed: the lock is its parent's.
        """
        ours = os.getpid() == self.owner
        for file in reversed(self.files):
            if file.fd is not None and _still_open(file.fd, file.identity):
                if ours and file.exclusive:
                    record.write(file.fd, None)
                if ours and unlock:
                    lockfile.unlock(file.fd)
                os.close(file.fd)


def _still_open(fd: int, wanted: lockfile.Identity) -> bool:
    """Somebody may have closed our descriptor; the number may then be another file by now."""
    try:
        return lockfile.identity(fd) == wanted
    except OSError:
        return False


class _Patience:
    """How long one request waits, over all its files, and whom it tells."""

    def __init__(self, timeout: float | None, on_wait: Callable[[Holder], None] | None, name: str) -> None:
        self.timeout = timeout
        self.name = name
        self.on_wait = on_wait
        self.begun = time.monotonic()
        self.next_report = _REPORT_AFTER
        self.pause = _FIRST_PAUSE

    def wait(self, path: Path, fd: int) -> None:
        """Sleep a little; raises Unavailable, naming the holder, when the time is over."""
        waited = time.monotonic() - self.begun
        if self.timeout is not None and waited >= self.timeout:
            raise Unavailable(
                f"the {self.name} was not had within {self.timeout:g} s: {holder.find(path, fd)}"
            )
        if self.on_wait and waited >= self.next_report:
            self.next_report = waited + _REPORT_EVERY
            self.on_wait(holder.find(path, fd, waited=waited))
        left = self.pause if self.timeout is None else min(self.pause, self.timeout - waited)
        time.sleep(left)
        self.pause = min(self.pause * 1.5, _LONGEST_PAUSE)


def take(
    kind: Kind,
    devices: Sequence[str] = (),
    *,
    timeout: float | None = None,
    on_wait: Callable[[Holder], None] | None = None,
    turn: bool = True,
    base: Path | None = None,
) -> Held:
    """As `gpu_lock`, but the caller releases. `turn=False` is for a wrapper that computes nothing itself.

    `base` is another lock than the GPU's, with the same rules.
    """
    if kind not in get_args(Kind):
        raise UsageProblem(f"kind of GPU lock: got {printable(str(kind))}, wanted one of {get_args(Kind)}")
    if isinstance(devices, str):
        raise UsageProblem("devices of the GPU lock: got one string, wanted a sequence of UUIDs")
    if timeout is not None and not timeout >= 0:
        raise UsageProblem(f"time-out of the GPU lock: got {timeout}, wanted at least 0 seconds")
    name = "GPU lock" if base is None else f"lock {printable(str(base))}"
    base = base or paths.lock_path()
    uuids = tuple(sorted({paths.canonical_uuid(uuid) for uuid in devices}))
    timed = kind == "timed"
    patience = _Patience(timeout, on_wait, name)
    files: list[LockedFile] = []
    try:
        if not timed:
            for uuid in uuids:
                files.append(_take_file(paths.device_path(base, uuid), True, kind, patience))
        main = _take_file(base, timed, kind, patience)
        files.append(main)
        if turn and main.fd is None and main.descriptor.exclusive:
            files.append(_take_file(paths.turn_path(base), timed, kind, patience))
    except BaseException:
        Held(kind, uuids, tuple(files), recognised=False, owner=os.getpid()).release()
        raise
    return Held(kind, uuids, tuple(files), recognised=main.fd is None, owner=os.getpid())


@contextlib.contextmanager
def gpu_lock(
    kind: Kind,
    devices: Sequence[str] = (),
    timeout: float | None = None,
    on_wait: Callable[[Holder], None] | None = None,
) -> Iterator[Held]:
    """Hold the GPU lock for the length of the block.

    `devices`: UUIDs of the devices that correctness work uses, all in one request; a timed series has them all
    anyway. `timeout` in seconds, None for ever, 0 for one try. `on_wait` is called about every second while waiting.

    Raises Unavailable (exit 3) when the time is over or the lock file is unusable, UsageProblem (exit 2) for a
    timed series below a lock that is only shared: it would wait for itself.
    """
    held = take(kind, devices, timeout=timeout, on_wait=on_wait)
    try:
        yield held
    finally:
        held.release()


@contextlib.contextmanager
def cpu_lock(timeout: float | None = None, on_wait: Callable[[Holder], None] | None = None) -> Iterator[Held]:
    """Hold the lock of timed series on the CPU (`/tmp/harness-cpu`) for the length of the block, as `gpu_lock` does."""
    held = take("timed", timeout=timeout, on_wait=on_wait, base=paths.cpu_lock_path())
    try:
        yield held
    finally:
        held.release()


def _take_file(path: Path, exclusive: bool, kind: Kind, patience: _Patience) -> LockedFile:
    while True:
        fd = lockfile.open_lock(path)
        try:
            file = _lock_or_recognise(path, fd, exclusive, patience)
        except BaseException:
            os.close(fd)
            raise
        if file is None or file.fd is None:
            os.close(fd)
        elif exclusive:
            record.write(fd, record.current(kind))
        if file is not None:
            return file


def _lock_or_recognise(path: Path, fd: int, exclusive: bool, patience: _Patience) -> LockedFile | None:
    """None when the file was replaced meanwhile, so that a lock on it would keep nobody out."""
    this = lockfile.identity(fd)
    known = descriptors.recognised(path, fd)
    if known is not None:
        if exclusive and not known.exclusive:
            whose = (
                "a descriptor of this process" if known.pid is None else f"process {known.pid} above this one"
            )
            raise UsageProblem(
                f"{printable(str(path))} is already held by {whose}, and only shared; a timed series needs it"
                " exclusively and would wait for itself: start it outside that lock"
            )
        return LockedFile(path, this, exclusive, known, None)
    while not lockfile.try_lock(fd, exclusive=exclusive):
        patience.wait(path, fd)
        if lockfile.misplaced(path, this):
            return None
    if lockfile.misplaced(path, this):
        return None
    return LockedFile(path, this, exclusive, Descriptor(fd, exclusive), fd)
