# mypy: ignore-errors
"""The shared loop of `matmul` for many rows of 16-bit activations: decoded tiles through the matrix units; device code."""

import triton
import triton.language as tl

from kernels.common.triton.neighbours import neighbours
from kernels.common.triton.rounding import narrowed, rounded_to_bf16


@triton.jit(do_not_specialize=["total_m", "total_n"])
def matmul(
    blocks,
    x,
    y,
    table,
    signs,
    total_m,
    total_n,
    row_blocks,
    split_blocks,
    x_row,
    x_column,
    y_split,
    y_row,
    y_column,
    decode: tl.constexpr,
    block_elems: tl.constexpr,
    block_bytes: tl.constexpr,
    groups: tl.constexpr,
    positions: tl.constexpr,
    run: tl.constexpr,
    align: tl.constexpr,
    rows_x: tl.constexpr,
    rows_w: tl.constexpr,
    columns: tl.constexpr,
    whole: tl.constexpr,
    emulated: tl.constexpr,
):
    """y[s, m, n] = sum of x[m, k] * w[n, k] over the k of split s, which has `split_blocks` blocks of every row.

    Grid: tiles of n, tiles of m, splits. `whole` says that every split is a whole number of tiles. One product takes `run`
    neighbouring weights of every group of the tile, so that its K is not in the order of the row: x is read at the
    places that the decode names.

    With bfloat16 activations the weights are rounded to bfloat16. With half-precision ones both go to the matrix unit
    as float32, which reads 11 significant bits: exact for the activations, while the weights keep the range of float32
    (a half would overflow beyond 65504) and lose the rest of their digits.
    """
    n = tl.program_id(0).to(tl.int64) * rows_w + tl.arange(0, rows_w)
    m = tl.program_id(1).to(tl.int64) * rows_x + tl.arange(0, rows_x)
    split = tl.program_id(2)
    row_at = tl.where(n < total_n, n, 0) * row_blocks * block_bytes
    x_at = tl.where(m < total_m, m, 0) * x_row
    column = tl.arange(0, columns)
    group = (column % groups)[:, None]
    # The same columns for x, `run` times each.
    x_column_of = tl.arange(0, run * columns) // run
    x_group = x_column_of % groups
    x_place = tl.arange(0, run * columns) % run
    total = tl.zeros((rows_w, rows_x), tl.float32)
    first = split * split_blocks
    last = tl.minimum(first + split_blocks, row_blocks)
    for start in range(first, last, columns // groups):
        block = start + column // groups
        inside = (block < last)[:, None]
        at = row_at[None, :] + (tl.where(block < last, block, 0) * block_bytes)[:, None]
        x_block = start + x_column_of // groups
        for quad in tl.static_range(positions // run):
            _, w, w1, w2, w3 = neighbours(decode, blocks, at, group, table, signs, align, run, run * quad)
            if not whole:
                # The tile's columns beyond the split hold copies of the first block, maybe infinities or NaNs.
                w = tl.where(inside, w, 0.0)
                w1 = tl.where(inside, w1, 0.0)
                w2 = tl.where(inside, w2, 0.0)
                w3 = tl.where(inside, w3, 0.0)
            w = tl.trans(w)
            if run == 4:
                w13 = tl.join(tl.trans(w1), tl.trans(w3))
                w = tl.reshape(tl.join(tl.join(w, tl.trans(w2)), w13), (rows_w, run * columns))
            lane, _ = decode(blocks, x_group * 0, x_group, table, signs, align, run * quad)
            k = (x_block * block_elems + lane + x_place).to(tl.int64) * x_column
            a = tl.load(x + x_at[None, :] + k[:, None], mask=(x_block < last)[:, None], other=0.0)
            if emulated:
                # The interpreter's matrix product is in float32 alone.
                if x.dtype.element_ty == tl.bfloat16:
                    w = rounded_to_bf16(w)
                total = tl.dot(w, a.to(tl.float32), total)
            elif x.dtype.element_ty == tl.bfloat16:
                total = tl.dot(w.to(tl.bfloat16), a, total)
            else:
                total = tl.dot(w, a.to(tl.float32), total, input_precision="tf32")
    tl.store(
        y + split.to(tl.int64) * y_split + m[:, None] * y_row + n[None, :] * y_column,
        narrowed(tl.trans(total), y.dtype.element_ty, emulated),
        mask=(m[:, None] < total_m) & (n[None, :] < total_n),
    )


@triton.jit(do_not_specialize=["total_m", "total_n", "splits"])
def add_splits(
    parts, y, total_m, total_n, splits, part, y_row, y_column, tile: tl.constexpr, emulated: tl.constexpr
):
    """y[m, n] = the sum over s of parts[s, m, n], float32, s ascending: the same bits in every run.

    `part` is how far the parts lie apart; inside they are contiguous. Grid: tiles of n, m.
    """
    n = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    m = tl.program_id(1).to(tl.int64)
    total = tl.zeros((tile,), tl.float32)
    source = parts + m * total_n + n
    for _ in range(splits):
        total += tl.load(source, mask=n < total_n, other=0.0)
        source += part
    tl.store(y + m * y_row + n * y_column, narrowed(total, y.dtype.element_ty, emulated), mask=n < total_n)
