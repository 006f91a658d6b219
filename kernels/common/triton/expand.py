# mypy: ignore-errors
"""The shared loop of `dequantize` and `get_rows`: blocks to values, a tile of groups a program; device code."""

import triton
import triton.language as tl

from kernels.common.triton.neighbours import neighbours
from kernels.common.triton.rounding import narrowed


@triton.jit
def expand(
    blocks,
    rows,
    out,
    table,
    signs,
    data_rows,
    row_blocks,
    row_tiles,
    out_row,
    decode: tl.constexpr,
    block_elems: tl.constexpr,
    block_bytes: tl.constexpr,
    groups: tl.constexpr,
    positions: tl.constexpr,
    run: tl.constexpr,
    align: tl.constexpr,
    columns: tl.constexpr,
    emulated: tl.constexpr,
):
    """Write the `row_blocks` blocks of one row to `out`, whose rows lie `out_row` elements apart and are contiguous.

    Grid: wanted rows times the `row_tiles` tiles of `columns` groups that a row has. `rows` int64 names the wanted
    rows of the data, or is None, and they are all rows in order. A number that is no row of the data gives a row of
    NaN, and nothing is read for it.
    """
    wanted = (tl.program_id(0) // row_tiles).to(tl.int64)
    column = (tl.program_id(0) % row_tiles).to(tl.int64) * columns + tl.arange(0, columns)
    block = column // groups
    group = (column % groups).to(tl.int32)
    inside = block < row_blocks
    row = wanted
    if rows is not None:
        row = tl.load(rows + wanted)
        exists = (row >= 0) & (row < data_rows)
        row = tl.where(exists, row, 0)
    at = (row * row_blocks + tl.where(inside, block, 0)) * block_bytes
    target = out + wanted * out_row + block * block_elems
    # All is decoded before anything is stored: a store in between would make the compiler read the block again.
    runs = ()
    for quad in tl.static_range(positions // run):
        lane, value, v1, v2, v3 = neighbours(decode, blocks, at, group, table, signs, align, run, run * quad)
        if run == 4:
            value = tl.reshape(tl.join(tl.join(value, v2), tl.join(v1, v3)), (columns, run))
        else:
            value = value[:, None]
        if rows is not None:
            value = tl.where(exists, value, float("nan"))
        runs += ((lane, narrowed(value, out.dtype.element_ty, emulated)),)
    for quad in tl.static_range(positions // run):
        to = (target + runs[quad][0])[:, None] + tl.arange(0, run)[None, :]
        tl.store(to, runs[quad][1], mask=inside[:, None])
