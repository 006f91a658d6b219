"""The loop that every numpy decode shares: runs of blocks that fit in a core's cache, written straight into the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

CHUNK_WEIGHTS = 1 << 17
"""Weights decoded at a time: 512 KiB of float32, which with a decode's temporaries stays in a 1 MiB second-level cache."""


class Decode(Protocol):
    """What `reference.py` of a unit offers: blocks [n, block_bytes] uint8 into out [n, block_elems] float32."""

    def __call__(
        self, blocks: NDArray[np.uint8], out: NDArray[np.float32], **tables: NDArray[np.generic]
    ) -> NDArray[np.float32]: ...


def decode_blocks(
    decode: Decode,
    blocks: NDArray[np.uint8],
    out: NDArray[np.float32],
    tables: Mapping[str, NDArray[np.generic]],
) -> None:
    """Fill `out` [n, block_elems] from `blocks` [n, block_bytes].

    Scales of infinity and NaN are ordinary input: the floating-point warnings that they raise are silenced.
    """
    step = max(1, CHUNK_WEIGHTS // out.shape[1])
    with np.errstate(all="ignore"):
        for start in range(0, len(blocks), step):
            decode(blocks[start : start + step], out[start : start + step], **tables)
