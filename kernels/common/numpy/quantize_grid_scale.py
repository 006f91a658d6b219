"""Search for the scale of a block whose magnitudes are rows of a table: the IQ2 and IQ3 encodings.

Magnitudes are scale * (2 c + 1) with a code c a weight, k codes being a row of the table. Each candidate scale gives codes
by rounding, rows by `nearest_rows`, and removes (sum w v x)^2 / sum w v^2 of the error; the best is kept. Rows are stored
in the order of the table, signs apart, and the scales of the blocks of a super-block as 0.5 + l, l in 0 .. 15.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernels.common.numpy.quantize_grid import Grid, check_scale, nearest_rows
from kernels.common.numpy.quantize_k import SUPER, super_block_importance
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
from kernels.common.numpy.quantize_sub_scales import search as search_sub_scales


@dataclass(frozen=True)
class Plan:
    """What sets one encoding's search apart.

    Candidates are top + step * i for i in -steps .. steps, top = 2 * levels - 1 being the largest value of a code; they
    are put on the largest magnitude or, with `searched_top`, on what a search without the table finds. A block whose
    magnitudes are all below `smallest` is stored as zeros. `even_signs`: the signs of eight weights are stored as seven.
    `refit`: which rows the last pass, at the best scale, looks up again: those that were `missing` from the table, `all` of
    a block where any was missing, or all `always`.
    """

    steps: int
    step: float
    smallest: float
    even_signs: bool
    searched_top: bool = False
    refit: Literal["missing", "all", "always"] = "missing"


def split_signs(x: Floats, weights: Floats, *, even: bool) -> tuple[Floats, Bytes]:
    """Magnitudes [block, n] and sign bits [block / 8, n] of x [block, n]; bit i is set where weight i of eight is negative.

    `even`: where the number of negative ones is odd, the weight with the least w x^2 changes its sign; its magnitude is
    then a negative one.
    """
    negative = ~(x >= 0)
    magnitude = np.where(negative, -x, x)
    if even:
        by_eight = (-1, 8, x.shape[1])
        signs, sizes = negative.reshape(by_eight), magnitude.reshape(by_eight)
        odd = signs.sum(axis=1, keepdims=True) % 2 == 1
        least = (weights * x * x).reshape(by_eight).argmin(axis=1)[:, None]
        flipped = odd & (np.arange(8)[:, None] == least)
        signs ^= flipped
        np.negative(sizes, out=sizes, where=flipped)
    return magnitude, np.packbits(negative.reshape(-1, 8, x.shape[1]), axis=1, bitorder="little")[:, 0]


class _Fit:
    """The blocks of a search: magnitudes and weights as lanes [block, n] and as rows [q, k], prepared once."""

    def __init__(self, grid: Grid, x: Floats, w: Floats) -> None:
        self.grid, self.x, self.w, self.wx = grid, x, w, w * x
        self.values = (2 * grid.codes + 1).astype(np.float32)
        self.x_rows, self.root_rows = grid.split(x), grid.split(np.sqrt(w))
        self.shape = (len(x) // grid.k, x.shape[1])

    def rows(self, inverse: Floats, scale: Floats) -> tuple[Ints, Mask]:
        """Position of the rows [block / k, n] for the scale [n], and whether rounding alone gave them."""
        half = inverse * self.x
        half -= f32(1)
        half *= f32(0.5)
        key = self.grid.keys(clipped_int(half, 0, self.grid.levels - 1))
        scales = np.tile(scale, self.shape[0])
        rows = nearest_rows(self.grid, self.values, key, self.x_rows, self.root_rows, scales)
        return rows.reshape(self.shape), (self.grid.row[key] >= 0).reshape(self.shape)

    def sums(self, rows: Ints) -> tuple[Floats, Floats]:
        """sum w x v and sum w v^2 [n] for the rows [block / k, n]."""
        value = np.take(self.values, rows, axis=0).transpose(0, 2, 1).reshape(self.x.shape)
        square = self.w * value
        square *= value
        return ordered_sum(self.wx * value), ordered_sum(square)


def _search(
    plan: Plan, grid: Grid, x: Floats, weights: Floats, largest: Floats, scale: Floats
) -> tuple[Floats, Ints]:
    """Scale [n] and rows [block / k, n] for magnitudes x [block, n], of which `largest` [n] shall be the largest."""
    fit = _Fit(grid, x, weights)
    best = np.zeros_like(scale)
    rows = np.zeros(fit.shape, np.int32)
    direct = np.full(fit.shape, plan.refit == "missing")
    for step in range(-plan.steps, plan.steps + 1):
        inverse = (f32(2 * grid.levels - 1) + f32(step) * f32(plan.step)) / largest
        new_rows, new_direct = fit.rows(inverse, f32(1) / inverse)
        vx, vv = fit.sums(new_rows)
        better = (vv > 0) & (vx * vx > best * vv)
        np.divide(vx, vv, out=scale, where=better)
        np.multiply(scale, vx, out=best, where=better)
        np.copyto(rows, new_rows, where=better)
        np.copyto(direct, new_direct, where=better)
    again = scale > 0
    if plan.refit != "always":
        again &= ~direct.all(axis=0)
    fitted, _ = fit.rows(f32(1) / scale, scale)
    np.copyto(rows, fitted, where=again & ~direct if plan.refit == "missing" else again)
    vx, vv = fit.sums(rows)
    np.divide(vx, vv, out=scale, where=again & (vv > 0))
    return scale, rows


def encode_blocks(plan: Plan, grid: Grid, x: Floats, weights: Floats) -> tuple[Floats, Ints, Bytes]:
    """Scales [n], at least 0, rows [block / k, n] and sign bits [block / 8, n] for x under weights [block, n].

    Raises OverflowError as `nearest_rows`.
    """
    n = x.shape[1]
    scales, rows = np.zeros(n, f32), np.zeros((len(x) // grid.k, n), np.int32)
    signs = np.zeros((len(x) // 8, n), np.uint8)
    magnitude, bits = split_signs(x, weights, even=plan.even_signs)
    largest = np.fmax.reduce(magnitude, axis=0)
    scale = largest / f32(2 * grid.levels - 1)
    if plan.searched_top:
        scale, _ = search_sub_scales(magnitude, weights, grid.levels + 1)
        wanted = ~(largest < f32(plan.smallest)) & ~(scale * f32(grid.levels) <= 0)
        largest = scale * f32(grid.levels)
    else:
        wanted = ~(largest < f32(plan.smallest))
    todo = np.flatnonzero(wanted)
    if len(todo):
        scale, rows[:, todo] = _search(
            plan, grid, magnitude[:, todo], weights[:, todo], largest[todo], scale[todo]
        )
        scales[todo] = np.abs(scale)
        check_scale(scales)
        signs[:, todo] = np.where(scale < 0, ~bits[:, todo], bits[:, todo])
    return scales, rows, signs


def encode_super_blocks(
    plan: Plan, grid: Grid, rows: Floats, weights: Floats, block: int
) -> tuple[Floats, Bytes, Ints, Bytes]:
    """d [n], codes l [n, 256 / block], rows [block / k, n_blocks] and sign bits [block / 8, n_blocks] of super-blocks.

    The search runs under weight * sqrt(mean square of the super-block + x^2), `weights` [n_cols] being an importance
    matrix. A sign index is the lower seven of the eight bits. Raises OverflowError as `nearest_rows`.
    """
    w = super_block_importance(rows, weights, block, 1)
    scales, found, signs = encode_blocks(plan, grid, lanes(rows, block), w)
    d, codes = scale_codes(scales, SUPER // block)
    return d, codes, found, signs & np.uint8(127)


def scale_codes(scales: Floats, blocks: int, factor: float = 1) -> tuple[Floats, Bytes]:
    """d [n] and codes l [n, blocks] for the scales [n * blocks] of super-blocks, scale = d * (2 l + 1).

    d gives the largest scale 15.5; it is stored times `factor`, an experience of the engine's authors, after the codes have
    been found. Where all scales are 0, d and the codes are.
    """
    x = lanes(scales, blocks)
    d = np.fmax.reduce(x, axis=0) / f32(31)
    codes = clipped_int(f32(0.5) * (f32(1) / d * x - f32(1)), 0, 15)
    codes[:, d == 0] = 0
    return (d * f32(factor) if factor != 1 else d), codes.T.astype(np.uint8)
