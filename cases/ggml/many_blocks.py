"""Ten million blocks of an encoding, judged in chunks that fit in memory: what the nightly run looks at.

Families of cases draw some 10^5 random blocks an encoding; their evidence is what the matrix shows. A fault that one block
in a million has is looked for here, without a required case: a cell must not wait for a run of hours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cases.generators import Blocks, ordinary_blocks, random_blocks
from harness.comparison.bounds import BIT_EXACT
from harness.guard import GuardedBuffer
from harness.plugin.judging import Judged, Opinion, judge
from harness.verdicts import Verdict, worst
from kernels.units import Unit

BLOCKS = 10_000_000
"""Of each encoding, half of each draw."""
CHUNK_WEIGHTS = 1 << 23
"""32 MiB of float32, for us and for each opinion."""

DRAWS: dict[str, Callable[[Unit, int, np.random.Generator], Blocks]] = {
    "random_bytes": random_blocks,
    "ordinary_scales": ordinary_blocks,
}

Decode = Callable[[Blocks, npt.NDArray[np.float32]], object]
"""Decodes blocks uint8 [n, block_bytes] into float32 [n, block_elems]."""
Ask = Callable[[Blocks], Sequence[Opinion]]


@dataclass(frozen=True)
class Swept:
    """How many blocks were judged, and the worst judgement, with the chunk and the seed that it came from."""

    blocks: int
    judged: Judged
    chunk: int
    seed: int

    def __str__(self) -> str:
        place = f"chunk {self.chunk}, seed {self.seed}"
        return f"{self.judged.verdict} after {self.blocks} blocks, {place}: {self.judged.message}"


def sweep(
    found: Unit, draw: str, blocks: int, decode: Decode, ask: Ask, *, chunk: int | None = None
) -> Swept:
    """Judge `blocks` blocks, `chunk` at a time, bit for bit; every chunk is judged, whatever the first ones show."""
    chunk = chunk or max(1, CHUNK_WEIGHTS // found.block_elems)
    guarded = GuardedBuffer(4 * chunk * found.block_elems)
    kept: Swept | None = None
    for number, start in enumerate(range(0, blocks, chunk)):
        count = min(chunk, blocks - start)
        seed = seed_of(found.encoding, draw, number)
        data = DRAWS[draw](found, count, np.random.default_rng(seed))
        guarded.repoison()
        values = guarded.array(np.float32, (chunk, found.block_elems))[:count]
        decode(data, values)
        if overrun := guarded.overrun():
            raise AssertionError(f"the kernel {overrun} of its memory: chunk {number}, seed {seed}")
        judged = judge(values, ask(data), BIT_EXACT, found.block_elems)
        if kept is None or worst((kept.judged.verdict, judged.verdict)) is not kept.judged.verdict:
            kept = Swept(0, judged, number, seed)
    if kept is None:
        raise ValueError(f"{blocks} blocks: nothing was judged")
    return Swept(blocks, kept.judged, kept.chunk, kept.seed)


def seed_of(encoding: str, draw: str, chunk: int) -> int:
    """32 bits from the names, so that one chunk can be drawn again alone."""
    words = f"many_blocks/{encoding}/{draw}/{chunk}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "little")


def passed(swept: Swept) -> bool:
    return swept.judged.verdict is Verdict.PASS
