# mypy: ignore-errors
"""Neighbouring weights of a group, which every loop decodes together; device code."""

import triton
import triton.language as tl


@triton.jit
def neighbours(
    decode: tl.constexpr,
    blocks,
    at,
    group,
    table,
    signs,
    align: tl.constexpr,
    run: tl.constexpr,
    first: tl.constexpr,
):
    """The place of position `first` in its block, and the weights of positions `first` to `first` + 3, float32.

    Where a run is a single weight (`run` is 1) all four are that one.
    """
    lane, w0 = decode(blocks, at, group, table, signs, align, first)
    w1 = w0
    w2 = w0
    w3 = w0
    if run == 4:
        _, w1 = decode(blocks, at, group, table, signs, align, first + 1)
        _, w2 = decode(blocks, at, group, table, signs, align, first + 2)
        _, w3 = decode(blocks, at, group, table, signs, align, first + 3)
    return lane, w0, w1, w2, w3
