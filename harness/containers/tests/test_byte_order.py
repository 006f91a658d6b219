"""Swapping blocks field by field."""

from __future__ import annotations

import numpy as np
import pytest

from harness.containers.byte_order import swap_fields


def test_each_number_is_reversed_where_it_stands() -> None:
    block = np.arange(16, dtype=np.uint8)
    fields = [(0, 2, 2), (4, 1, 4), (8, 8, 1)]  # two halves, four bytes, one 64-bit number
    wanted = [1, 0, 3, 2, 4, 5, 6, 7, 15, 14, 13, 12, 11, 10, 9, 8]
    both = swap_fields(np.concatenate([block, block]), 16, fields)
    assert both.tolist() == wanted * 2
    assert swap_fields(both, 16, fields).tolist() == block.tolist() * 2


def test_the_bytes_given_are_not_changed() -> None:
    data = np.arange(4, dtype=np.uint8)
    data.flags.writeable = False
    assert swap_fields(data, 4, [(0, 4, 1)]).tolist() == [3, 2, 1, 0]
    assert data.tolist() == [0, 1, 2, 3]


def test_no_bytes_are_swapped_to_no_bytes() -> None:
    assert swap_fields(np.empty(0, np.uint8), 18, [(0, 2, 1)]).size == 0


@pytest.mark.parametrize("fields", [[(15, 2, 1)], [(0, 4, 5)], [(-2, 2, 1)], [(0, 0, 1)]])
def test_a_field_outside_the_block_is_refused(fields: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ValueError, match="leaves the block"):
        swap_fields(np.zeros(16, np.uint8), 16, fields)


def test_a_part_of_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="not a whole number of blocks"):
        swap_fields(np.zeros(17, np.uint8), 16, [(0, 2, 1)])
