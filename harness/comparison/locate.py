"""Where an element sits: its row, its block within the row, its lane within the block."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Position of one element. `index` is flat; `block` counts within the row, `lane` within the block."""

    index: int
    row: int
    column: int
    block: int
    lane: int


def place(index: int, shape: tuple[int, ...], block_elems: int) -> Place:
    """The place of flat `index` in a row-major array whose last dimension holds blocks of `block_elems`.

    All leading dimensions together count as rows; a 0-d array is one row of one element.
    """
    columns = shape[-1] if shape else 1
    row, column = divmod(index, columns)
    block, lane = divmod(column, block_elems)
    return Place(index, row, column, block, lane)
