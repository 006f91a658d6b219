"""Rows of a table in place of free codes: which row is nearest to some weights, as the grid encodings IQ1 .. IQ3 share it.

A table holds only some of the levels^k rows of k codes. Rounding each weight for itself gives a row that may be missing;
then the neighbours of that row are tried, the rows of the table at its `wanted` smallest distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.quantize_steps import Floats, Ints, f32

RANKS_AT_A_TIME = 8
"""Neighbours that are tried in one go."""

NO_ERROR = "the squared error is no finite number"


@dataclass(frozen=True)
class Grid:
    """A table as codes 0 .. levels - 1 and what its search needs.

    codes int32 [rows, k]. row int32 [levels^k]: the position in the table of a row of codes, -1 where it is missing; rows
    of codes are numbered by `keys`. neighbours int16 [most, levels^k], the nearest first and of equally near ones that with
    the smaller position, and count int32 [levels^k] how many of them there are, 0 for rows that are in the table.
    """

    levels: int
    codes: Ints
    row: Ints
    neighbours: NDArray[np.int16]
    count: Ints

    @property
    def k(self) -> int:
        """Codes to a row."""
        return len(self.codes[0])

    def keys(self, codes: Ints) -> Ints:
        """Numbers of the rows of codes [block, n] as [q], q = row * n + column: the rows of a block are `k` lanes each."""
        number = np.zeros((len(codes) // self.k, codes.shape[1]), np.int32)
        for lane in reversed(range(self.k)):
            number *= self.levels
            number += codes[lane :: self.k]
        return number.reshape(-1)

    def split(self, lanes: Floats) -> Floats:
        """Lanes [block, n] as rows [q, k], in the order of `keys`."""
        block, n = lanes.shape
        rows = lanes.reshape(block // self.k, self.k, n).transpose(0, 2, 1)
        return np.ascontiguousarray(rows).reshape(-1, self.k)


def grid_of(table: NDArray[np.int8], wanted: int) -> Grid:
    """The grid of a decode table [rows, k], whose distinct values in ascending order are the codes 0, 1, …"""
    return _build(np.ascontiguousarray(table).tobytes(), table.shape, wanted)


@lru_cache(maxsize=8)
def _build(content: bytes, shape: tuple[int, int], wanted: int) -> Grid:
    values, position = np.unique(np.frombuffer(content, np.int8), return_inverse=True)
    codes: Ints = position.reshape(shape).astype(np.int32)
    levels, k = len(values), shape[1]
    every = (np.arange(levels**k)[:, None] // levels ** np.arange(k) % levels).astype(np.float32)
    table = codes.astype(np.float32)
    distance = (every**2).sum(1)[:, None] + (table**2).sum(1) - 2 * (every @ table.T)
    row: Ints = np.where(distance.min(1) == 0, distance.argmin(1), -1).astype(np.int32)
    limit = distance.min(1, keepdims=True)
    for _ in range(wanted - 1):
        limit = np.where(distance > limit, distance, f32(np.inf)).min(1, keepdims=True)
    missing, near = np.nonzero((distance <= limit) & (row < 0)[:, None])
    order = np.lexsort((near, distance[missing, near], missing))
    missing, near = missing[order], near[order]
    count: Ints = np.bincount(missing, minlength=levels**k).astype(np.int32)
    rank = np.arange(len(missing)) - (np.cumsum(count) - count)[missing]
    neighbours = np.zeros((count.max(), levels**k), np.int16)
    neighbours[rank, missing] = near
    return Grid(levels, codes, row, neighbours, count)


def nearest_rows(grid: Grid, values: Floats, key: Ints, x: Floats, weights: Floats, scale: Floats) -> Ints:
    """Position in the table [n] of the row for x [n, k]: that of `key` [n], or the nearest of its neighbours.

    Nearest is least sum w (scale v - x)^2 with v the row of `values` float32 [rows, k] that the codes stand for, summed in
    lane order; weights [n, k], scale [n].

    Raises OverflowError where the sum is a finite number for no neighbour: the engine ends the process there.
    """
    found = grid.row[key]
    missing = np.flatnonzero(found < 0)
    if not len(missing):
        return found
    missing = missing[np.argsort(-grid.count[key[missing]], kind="stable")]
    key, x, weights = key[missing], x[missing], weights[missing]
    scales = np.repeat(scale[missing, None], grid.k, axis=1)
    count = grid.count[key]
    limit = np.finfo(np.float32).max
    best = np.full(len(missing), limit, f32)
    nearest = np.zeros(len(missing), np.int32)
    for first in range(0, int(count[0]), RANKS_AT_A_TIME):
        n = int(np.searchsorted(-count, -first))  # those that have more than `first` neighbours come first
        ranks = np.arange(first, min(first + RANKS_AT_A_TIME, int(count[0])))
        candidates = grid.neighbours[ranks[:, None], key[:n]]
        gap = np.take(values, candidates, axis=0)
        gap *= scales[:n]
        gap -= x[:n]
        error = sum_in_order(weights[:n] * gap, gap)
        error[~(error < limit) | (ranks[:, None] >= count[:n])] = limit
        pick = error.argmin(axis=0), np.arange(n)
        closer = error[pick] < best[:n]
        np.copyto(best[:n], error[pick], where=closer)
        np.copyto(nearest[:n], candidates[pick], where=closer)
    if not (best < limit).all():
        raise OverflowError(NO_ERROR)
    found[missing] = nearest
    return found


def check_scale(scale: Floats) -> None:
    """Raises OverflowError where a scale is a NaN: the engine ends the process there."""
    if np.isnan(scale).any():
        raise OverflowError(NO_ERROR)


def sum_in_order(left: Floats, right: Floats) -> Floats:
    """Sum over the last axis of left * right, from its first item, in float32."""
    product: NDArray[Any] = left * right
    total: Floats = product[..., 0] + product[..., 1]
    for lane in range(2, product.shape[-1]):
        total += product[..., lane]
    return total
