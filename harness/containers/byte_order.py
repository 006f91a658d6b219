"""Blocks written on a big-endian machine, put into the little-endian order that every decode here reads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def swap_fields(
    data: npt.NDArray[np.uint8], block_bytes: int, fields: Iterable[tuple[int, int, int]]
) -> npt.NDArray[np.uint8]:
    """A copy of `data` (`uint8 [n * block_bytes]`) in which every field's items have their bytes reversed.

    `fields`: (offset in the block, bytes of one item, number of items). Only numbers wider than a byte change: a packed
    nibble or code array is an array of single bytes. Swapping twice gives `data` back.
    Raises ValueError when the fields leave the block or `data` is not a whole number of blocks.
    """
    if block_bytes <= 0 or data.size % block_bytes:
        raise ValueError(f"{data.size} bytes are not a whole number of blocks of {block_bytes} bytes")
    swapped = data.reshape(-1, block_bytes).copy()
    for offset, item_bytes, count in fields:
        end = offset + item_bytes * count
        if offset < 0 or item_bytes <= 0 or count < 0 or end > block_bytes:
            raise ValueError(
                f"field at {offset} of {count} x {item_bytes} bytes leaves the block of {block_bytes}"
            )
        items = swapped[:, offset:end].reshape(-1, count, item_bytes)
        swapped[:, offset:end] = items[:, :, ::-1].reshape(-1, end - offset)
    return swapped.reshape(-1)
