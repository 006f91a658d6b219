# mypy: ignore-errors
"""The shared loop of `matmul` in float32 throughout: few rows of activations, or float32 ones; device code."""

import triton
import triton.language as tl

from kernels.common.triton.neighbours import neighbours
from kernels.common.triton.rounding import narrowed


@triton.jit(do_not_specialize=["total_m", "total_n"])
def matvec(
    blocks,
    x,
    y,
    table,
    signs,
    total_m,
    total_n,
    row_blocks,
    x_row,
    x_column,
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
    """y[m, n] = sum over k of x[m, k] * w[n, k], with `rows_w` rows of weights and `rows_x` of x for each program.

    Grid: tiles of n, tiles of m. A column of a tile is one group of a block: every thread adds up its own groups in
    float32, weight by weight, and the columns are added at the end. The order depends on nothing but the launch. `whole`
    says that a row is a whole number of tiles.

    The columns are the first dimension: the compiler lays the threads of a load along the first dimension where nothing
    is contiguous, and with them in one layout throughout no value has to change threads.
    """
    n = tl.program_id(0).to(tl.int64) * rows_w + tl.arange(0, rows_w)
    first_m = tl.program_id(1).to(tl.int64) * rows_x
    row_at = tl.where(n < total_n, n, 0) * row_blocks * block_bytes
    column = tl.arange(0, columns)
    group = (column % groups)[:, None]
    totals = (tl.zeros((columns, rows_w), tl.float32),) * rows_x
    for start in range(0, row_blocks, columns // groups):
        block = start + column // groups
        inside = (block < row_blocks)[:, None]
        block = tl.where(block < row_blocks, block, 0)
        at = row_at[None, :] + (block * block_bytes)[:, None]
        for quad in tl.static_range(positions // run):
            lane, w0, w1, w2, w3 = neighbours(decode, blocks, at, group, table, signs, align, run, run * quad)
            if not whole:
                # The tile's columns beyond the row hold copies of its first block, maybe infinities or NaNs.
                w0 = tl.where(inside, w0, 0.0)
                w1 = tl.where(inside, w1, 0.0)
                w2 = tl.where(inside, w2, 0.0)
                w3 = tl.where(inside, w3, 0.0)
            k = (block[:, None] * block_elems + lane + tl.arange(0, run)[None, :]).to(tl.int64) * x_column
            sums = ()
            for i in tl.static_range(rows_x):
                m = first_m + i
                a = tl.load(x + m * x_row + k, mask=inside & (m < total_m), other=0.0).to(tl.float32)
                if run == 4:
                    even, odd = tl.split(tl.reshape(a, (columns, 2, 2)))
                    a0, a2 = tl.split(even)
                    a1, a3 = tl.split(odd)
                    total = totals[i] + a0[:, None] * w0
                    total = total + a1[:, None] * w1
                    total = total + a2[:, None] * w2
                    total = total + a3[:, None] * w3
                else:
                    total = totals[i] + a * w0
                sums += (total,)
            totals = sums
    for i in tl.static_range(rows_x):
        m = first_m + i
        tl.store(
            y + m * y_row + n * y_column,
            narrowed(tl.sum(totals[i], axis=0), y.dtype.element_ty, emulated),
            mask=(m < total_m) & (n < total_n),
        )
