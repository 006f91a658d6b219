"""Poisoned memory: what a kernel leaves unwritten, or writes where it must not, becomes visible.

Every byte is 0xFF before a run: NaN in each floating type, -1 in each integer type, the NaN scale of e8m0 and e4m3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

POISON = 0xFF
GUARD_BYTES = 4096


class GuardedBuffer:
    """A poisoned run of bytes between two poisoned guard zones of `GUARD_BYTES` each."""

    def __init__(self, nbytes: int) -> None:
        self._memory = np.full(nbytes + 2 * GUARD_BYTES, POISON, np.uint8)
        self._stop = GUARD_BYTES + nbytes

    @property
    def body(self) -> npt.NDArray[np.uint8]:
        """The bytes between the guard zones, `[nbytes] uint8`."""
        return self._memory[GUARD_BYTES : self._stop]

    def array(self, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """The body seen as an array; its size must fill the body exactly."""
        return self.body.view(dtype).reshape(shape)

    def repoison(self) -> None:
        """Fill body and guard zones again, before the next run."""
        self._memory.fill(POISON)

    def overrun(self) -> str | None:
        """Where the nearest write outside the body fell, in words, or None."""
        before = np.flatnonzero(self._memory[:GUARD_BYTES] != POISON)
        if before.size:
            return f"wrote {GUARD_BYTES - int(before[-1])} bytes before the start"
        after = np.flatnonzero(self._memory[self._stop :] != POISON)
        if after.size:
            return f"wrote {int(after[0]) + 1} bytes past the end"
        return None


def guarded_copy(data: npt.NDArray[np.uint8]) -> GuardedBuffer:
    """`data` between guard zones, so that a read past its end meets poison and not the neighbour's bytes."""
    buffer = GuardedBuffer(data.size)
    buffer.body[:] = data
    return buffer
