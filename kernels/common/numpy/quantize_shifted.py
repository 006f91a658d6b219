"""Search for the scale of a block of -1, 0, 1, all shifted by an eighth up or down: IQ1_S and IQ1_M.

In ascending order the weights of a block split into those that become -1, 0 and 1. Every split and every choice of shifts
is a candidate; it removes (sum w v x)^2 / sum w v^2 of the error. Then each eight are moved to a row of the table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_grid import Grid, check_scale, nearest_rows
from kernels.common.numpy.quantize_steps import (
    Bytes,
    Floats,
    Ints,
    Mask,
    clipped_int,
    f32,
    lanes,
    ordered_sum,
)

UP = np.array([-0.875, 0.125, 1.125], np.float32)
DOWN = np.array([-1.125, -0.125, 0.875], np.float32)
"""What the codes 0, 1, 2 stand for."""

BLOCKS_AT_A_TIME = 256
"""The sums of all candidates of that many blocks stay in a few megabytes."""


def splits(block: int) -> list[tuple[int, int]]:
    """(i, j): the first i weights in ascending order become -1, those before j become 0; in the engine's order."""
    return [(i, j) for i in range(block + 1) for j in range(i, block + 1)]


def best_candidate(vx: Floats, vv: Floats) -> Ints:
    """Number [n] of the candidate to be kept, -1 without any: vx = sum w v x and vv = sum w v^2, [candidates, n].

    Candidates are compared in order with the best so far, by (sum w v x)^2 > best * sum w v^2.
    """
    removed = vx / vv * vx
    square = np.where(vv > 0, vx * vx, f32(np.nan))
    best = np.full(vx.shape[1], -np.finfo(np.float32).max, f32)
    chosen = np.full(vx.shape[1], -1, np.int32)
    limit, better = np.empty_like(best), np.empty(best.shape, np.bool_)
    for number in range(len(vx)):
        np.multiply(best, vv[number], out=limit)
        np.greater(square[number], limit, out=better)
        np.copyto(best, removed[number], where=better)
        np.copyto(chosen, np.int32(number), where=better)
    return chosen


def candidates_by_block(order: Ints, x: Floats, w: Floats) -> tuple[Floats, Floats]:
    """vx and vv [2 * splits, n] for one shift a block, up before down; x and w [32, n] in ascending order of x.

    Sums over a run are differences of running sums.
    """
    first, second = (np.array(ends) for ends in zip(*splits(len(x)), strict=True))
    parts = [
        (sums[first] - sums[0], sums[second] - sums[first], sums[-1] - sums[second])
        for sums in (running_sums(w * x), running_sums(w))
    ]
    vx, vv = (np.empty((2 * len(first), x.shape[1]), np.float32) for _ in range(2))
    for number, v in enumerate((UP, DOWN)):
        (x0, x1, x2), (w0, w1, w2) = parts
        vx[number::2] = x0 * v[0] + x1 * v[1] + x2 * v[2]
        vv[number::2] = w0 * v[0] * v[0] + w1 * v[1] * v[1] + w2 * v[2] * v[2]
    return vx, vv


def candidates_by_half(order: Ints, x: Floats, w: Floats) -> tuple[Floats, Floats]:
    """vx and vv [4 * splits, n] for a shift a half-block; x and w [16, n] in ascending order of x, `order` their lanes.

    Up for both halves, for the first one only, for the second one only, for none. With running sums s of a half and the
    values v0, v1, v2 one apart, sum w v x is v2 s[16] - (s[i] + s[j]) for the split (i, j), and likewise sum w v^2.
    """
    first, second = (np.array(ends) for ends in zip(*splits(len(x)), strict=True))
    by_half = []
    for inside in (order < len(x) // 2, order >= len(x) // 2):
        sx, sw = (running_sums(np.where(inside, terms, f32(0))) for terms in (w * x, w))
        taken = sx[second] + sx[first]
        for v0, v1, v2 in (UP, DOWN):
            vv = sw[first] * (v0 * v0 - v1 * v1) + sw[-1] * v2 * v2 + sw[second] * (v1 * v1 - v2 * v2)
            by_half.append((sx[-1] * v2 - taken, vv))
    up_first, down_first, up_second, down_second = by_half
    vx, vv = (np.empty((4 * len(first), x.shape[1]), np.float32) for _ in range(2))
    for number, (left, right) in enumerate(
        ((up_first, up_second), (up_first, down_second), (down_first, up_second), (down_first, down_second))
    ):
        vx[number::4] = left[0] + right[0]
        vv[number::4] = left[1] + right[1]
    return vx, vv


def running_sums(terms: Floats) -> Floats:
    """Sums of the first 0, 1, … k terms of [k, n]: [k + 1, n]."""
    zero = np.zeros((1, terms.shape[1]), np.float32)
    return np.concatenate([zero, np.add.accumulate(terms, axis=0)])


def search(
    grid: Grid, x: Floats, weights: Floats, smallest: float, *, halves: bool
) -> tuple[Floats, Ints, Ints]:
    """Scale [n], at least 0, positions in the table [block / 8, n] and choice of shifts [n] for x under weights [block, n].

    Choices: 0 up and 1 down for a block, 0 .. 3 as `candidates_by_half` with `halves`. A block with no magnitude of at
    least `smallest`, or without a candidate: scale 0, rows 0, choice 0. Raises OverflowError as `nearest_rows`.
    """
    n = x.shape[1]
    scale, choice = np.zeros(n, f32), np.zeros(n, np.int32)
    rows = np.zeros((len(x) // 8, n), np.int32)
    todo = np.flatnonzero(np.fmax.reduce(np.abs(x), axis=0) >= f32(smallest))
    for start in range(0, len(todo), BLOCKS_AT_A_TIME):
        part = todo[start : start + BLOCKS_AT_A_TIME]
        found, *result = _search(grid, x[:, part], weights[:, part], halves)
        scale[part[found]], rows[:, part[found]], choice[part[found]] = result
    return scale, rows, choice


def _search(grid: Grid, x: Floats, w: Floats, halves: bool) -> tuple[NDArray[np.intp], Floats, Ints, Ints]:
    """The columns that have a candidate, and for these scale, rows and choice."""
    order = np.argsort(x, axis=0, kind="stable").astype(np.int32)
    sorted_x, sorted_w = np.take_along_axis(x, order, axis=0), np.take_along_axis(w, order, axis=0)
    vx, vv = (candidates_by_half if halves else candidates_by_block)(order, sorted_x, sorted_w)
    every = best_candidate(vx, vv)
    column = np.flatnonzero(every >= 0)
    chosen, order, x, w = every[column], order[:, column], x[:, column], w[:, column]
    choices = 4 if halves else 2
    scale = vx[chosen, column] / vv[chosen, column]
    choice = chosen % choices
    ends = np.array(splits(len(x)), np.int32)[chosen // choices]
    place = np.arange(len(x), dtype=np.int32)[:, None]
    codes = np.empty_like(order)
    np.put_along_axis(codes, order, (place >= ends[:, 0]).astype(np.int32) + (place >= ends[:, 1]), axis=0)
    turned = scale < 0
    codes[:, turned] = 2 - codes[:, turned]
    scale[turned] *= -1
    choice[turned] = choices - 1 - choice[turned]

    key = grid.keys(codes)
    up = shifted_up(choice, len(x) // 8, halves)
    rows = np.empty(len(key), np.int32)
    x_rows, w_rows, scales = grid.split(x), grid.split(w), np.tile(scale, len(x) // 8)
    for v, which in ((UP, up.reshape(-1)), (DOWN, ~up.reshape(-1))):
        rows[which] = nearest_rows(
            grid, v[grid.codes], key[which], x_rows[which], w_rows[which], scales[which]
        )
    moved = (grid.row[key] < 0).reshape(up.shape).any(axis=0)
    found: Ints = rows.reshape(up.shape)
    value = values_of(grid, found, up)
    term = w * value
    vx, vv = ordered_sum(term * x), ordered_sum(term * value)
    np.divide(vx, vv, out=scale, where=moved & (vx > 0) & (vv > 0))
    check_scale(scale)
    return column, scale, found, choice


def shifted_up(choice: Ints, eights: int, halves: bool) -> Mask:
    """Which rows are shifted up, [eights, n], for the choices [n]."""
    if not halves:
        return np.tile(choice == 0, (eights, 1))
    return np.stack([choice < 2, choice % 2 == 0])


def values_of(grid: Grid, rows: Ints, up: Mask) -> Floats:
    """What the rows [block / 8, n] stand for, as lanes [block, n]."""
    codes = grid.codes[rows]
    value = np.where(up[:, :, None], UP[codes], DOWN[codes])
    lanes_of_eight: Floats = value.transpose(0, 2, 1).reshape(8 * len(rows), rows.shape[1])
    return lanes_of_eight


def scale_codes(scales: Floats, blocks: int) -> tuple[Floats, Bytes]:
    """d [n] and codes l = 0 .. 7 [n, blocks] for the scales [n * blocks] of super-blocks, scale = d * (2 l + 1)."""
    x = lanes(scales, blocks)
    d = np.fmax.reduce(x, axis=0) / f32(15)
    codes = clipped_int(f32(0.5) * (f32(1) / d * x - f32(1)), 0, 7)
    codes[:, d == 0] = 0
    return d, codes.T.astype(np.uint8)
