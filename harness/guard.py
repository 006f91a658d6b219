"""Poisoned memory: what a kernel leaves unwritten, or writes where it must not, becomes visible.

The body is 0xFF before a run: NaN in each floating type, -1 in each integer type, the NaN scale of e8m0 and e4m3. Because
NaN can also be the right answer, an element that still holds the poison is tried again over another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

POISON = 0xFF
SECOND_POISON = 0x5A
GUARD_BYTES = 4096

# Neither poison nor zero, and different from byte to byte: a fill of the guard zone with any one value shows.
_PATTERN = (1 + np.arange(GUARD_BYTES) * 37 % 253).astype(np.uint8)


class GuardedBuffer:
    """A poisoned run of bytes between two guard zones of `GUARD_BYTES` each.

    The zones of an output hold a pattern. Those of an input (`readable`) are poison, so that a read past the end shows.
    """

    def __init__(self, nbytes: int, *, readable: bool = False) -> None:
        self._memory = np.empty(nbytes + 2 * GUARD_BYTES, np.uint8)
        self._stop = GUARD_BYTES + nbytes
        self._zone = np.full(GUARD_BYTES, POISON, np.uint8) if readable else _PATTERN
        self.repoison()

    @property
    def body(self) -> npt.NDArray[np.uint8]:
        """The bytes between the guard zones, `[nbytes] uint8`."""
        return self._memory[GUARD_BYTES : self._stop]

    def array(self, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """The body seen as an array; its size must fill the body exactly."""
        return self.body.view(dtype).reshape(shape)

    def repoison(self, value: int = POISON) -> None:
        """Fill the body with one byte, and the guard zones with their pattern, before the next run."""
        self._memory[:GUARD_BYTES] = self._zone
        self._memory[self._stop :] = self._zone
        self.body.fill(value)

    def overrun(self) -> str | None:
        """Where the nearest write outside the body fell, in words, or None."""
        before = np.flatnonzero(self._memory[:GUARD_BYTES] != self._zone)
        if before.size:
            return f"wrote {GUARD_BYTES - int(before[-1])} bytes before the start"
        after = np.flatnonzero(self._memory[self._stop :] != self._zone)
        if after.size:
            return f"wrote {int(after[0]) + 1} bytes past the end"
        return None

    def holding(self, value: int = POISON) -> npt.NDArray[np.intp]:
        """Indices of the 4-byte words of the body that hold nothing but this byte."""
        return np.flatnonzero(self.body.view(np.uint32) == np.uint32(value * 0x01010101))

    def unwritten(self) -> int:
        """4-byte words that still hold the poison: never written, or written with that very NaN."""
        return int(self.holding().size)


def never_written(buffer: GuardedBuffer, run_again: Callable[[], object]) -> npt.NDArray[np.intp]:
    """Words of the body that a run left as they were. `run_again` fills the body once more, over another poison.

    The buffer holds the result of a run over the first poison; afterwards it holds that of the second run.
    """
    suspects = buffer.holding()
    if not suspects.size:
        return suspects
    buffer.repoison(SECOND_POISON)
    run_again()
    return np.intersect1d(suspects, buffer.holding(SECOND_POISON), assume_unique=True)


def guarded_copy(data: npt.NDArray[np.uint8]) -> GuardedBuffer:
    """`data` between guard zones of poison, so that a read past its end does not meet the neighbour's bytes."""
    buffer = GuardedBuffer(data.size, readable=True)
    buffer.body[:] = data
    return buffer
