"""The dot products of quantized rows: exact sums of integer products, then the engine's single-precision scales.

An encoded row is taken apart into an `Operand` by `kernels.common.numpy.matmul_operands`; here two of them are multiplied.
For row i of the activations and row j of the weights, with g over the groups that share both scales:

    out[i, j] = sum over g of (dx[i, g] * dw[j, g]) * (sum over the group of cx * cw)
              + sum over blocks b of (ox[i, b] * ow[j, b]) * (sum over parts p of sx[i, b, p] * mw[j, b, p])

The inner sums are exact. Products and outer sums are rounded to single precision, in ascending order of g.
The second line is that of encodings with minima: mw are the integer minima, sx the sums that the activations carry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.blocks import CHUNK_WEIGHTS

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Offsets:
    """What multiplies minima. Of weights: `values` the integer minima, of activations: the sums of their codes.

    values float32 [rows, blocks, parts], scales float32 [rows, blocks].
    """

    values: Floats
    scales: Floats


@dataclass(frozen=True)
class Operand:
    """Encoded rows as a dot product sees them: y = scale * code, plus the offset where there is one.

    codes float32 [rows, cols]: integers, or, in the encodings whose grids are shifted or halved, eighths.
    scales float32 [rows, cols / group], each for `group` codes in a row.
    """

    codes: Floats
    scales: Floats
    offsets: Offsets | None = None

    @property
    def group(self) -> int:
        group: int = self.codes.shape[1] // self.scales.shape[1]
        return group


def multiply(x: Operand, w: Operand, out: Floats) -> None:
    """Fill `out` [m, n] with the dot products of the m rows of `x` and the n rows of `w`, of equally many columns.

    The inner sums run through float64 BLAS, in whatever order it likes, and are exact all the same. A code of an
    activation is at most 2^7, a code of a weight at most 2^12 (Q6_K: |scale| 2^7 times |code| 2^5), both in units of
    an eighth or larger; 2^8 products of a group make 2^27, in eighths 2^30, and float64 holds integers up to 2^53.
    So does the sum of a block's minima times sums: 2^4 * 2^6 * 2^11.
    """
    m, n = out.shape
    cols = x.codes.shape[1]
    group = math.gcd(x.group, w.group)
    groups = cols // group
    x_codes = x.codes.astype(np.float64).reshape(m, groups, group).transpose(1, 0, 2)
    w_codes = w.codes.astype(np.float64).reshape(n, groups, group).transpose(1, 2, 0)
    x_scales, w_scales = (np.repeat(o.scales, o.group // group, axis=1).T for o in (x, w))
    # The rows of a run, times the groups, times n: a megabyte of float64 sums stays in the cache.
    step = max(1, CHUNK_WEIGHTS // max(1, groups * n))
    for start in range(0, m, step):
        run = slice(start, start + step)
        sums = np.matmul(x_codes[:, run], w_codes).astype(np.float32)
        sums *= x_scales[:, run, None] * w_scales[:, None, :]
        np.add.reduce(sums, axis=0, out=out[run], initial=0)
        if x.offsets is not None and w.offsets is not None:
            out[run] += _offsets(x.offsets, w.offsets, run)


def multiply_values(x: Floats, w: Floats, out: Floats) -> None:
    """Fill `out` [m, n] with the dot products of the rows of `x` [m, k] and `w` [n, k], both of plain values.

    Summed in float64, as the engine's generic code does, and rounded once. A product that single precision cannot hold
    is held here: the engine's is infinite.
    """
    out[:] = np.matmul(x.astype(np.float64), w.astype(np.float64).T)


def _offsets(x: Offsets, w: Offsets, run: slice) -> Floats:
    """The second line of the formula, float32 [run, n]."""
    x_values = x.values[run].astype(np.float64).transpose(1, 0, 2)
    sums = np.matmul(x_values, w.values.astype(np.float64).transpose(1, 2, 0)).astype(np.float32)
    sums *= x.scales[run].T[:, :, None] * w.scales.T[:, None, :]
    total: Floats = np.add.reduce(sums, axis=0)
    return total
