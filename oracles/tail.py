"""The end of what a process writes to standard error: read from a pipe, so that nobody's disk or memory fills."""

from __future__ import annotations

import os

KEPT_BYTES = 8 << 10
CHUNK_BYTES = 64 << 10
DRAIN_BYTES = 4 << 20
"""Read at most this much at once when nobody waits for an answer: the writer may never stop."""


class Tail:
    """Keeps the last `KEPT_BYTES`. A process that writes while nothing reads waits until somebody does."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._kept = bytearray()
        self.total = 0
        """Bytes read so far, of all processes that were attached."""

    @property
    def fd(self) -> int | None:
        """The descriptor to wait for, None when there is nothing to read any more."""
        return self._fd

    def attach(self, fd: int) -> None:
        """Read from this non-blocking descriptor; the caller closes it after `detach`."""
        self._fd = fd

    def detach(self) -> None:
        """Read what is there and let go of the descriptor."""
        self.drain()
        self._fd = None

    def read(self) -> int:
        """Take in one chunk; 0 when nothing is there."""
        if self._fd is None:
            return 0
        try:
            got = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            got = b""
        if not got:
            self._fd = None
        self.total += len(got)
        self._kept += got
        del self._kept[:-KEPT_BYTES]
        return len(got)

    def drain(self) -> None:
        """Take in what is there."""
        left = DRAIN_BYTES
        while left > 0 and (got := self.read()):
            left -= got

    def since(self, start: int) -> bytes:
        """What was written after the first `start` bytes, as far as it is kept."""
        return bytes(self._kept[max(0, start - (self.total - len(self._kept))) :])
