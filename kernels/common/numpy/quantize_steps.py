"""Steps that the quantizers share: the engine's roundings, conversions and sums, in its own order of operations.

The engine's quantizers are compiled without fused multiply-add and without reordering: every operation rounds to binary32
where it is written. Numpy's float32 arithmetic does the same, so that only the order of operations has to be kept.

Blocks are worked on side by side: `lanes` turns rows into float32 [block, n], lane i of every block in row i.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

f32 = np.float32
ROUNDING = f32(12582912)
"""1.5 * 2^23: what is added to it is rounded to an integer, half to even, and stands in the low bits of the sum."""


def lanes(rows: Floats, block: int) -> Floats:
    """float32 [n_rows, n_cols] to [block, n_blocks], the blocks in the order of the rows."""
    return np.ascontiguousarray(rows.reshape(-1, block).T)


def row_bytes(blocks: Bytes, rows: Floats) -> Bytes:
    """Blocks uint8 [n_blocks, block_bytes] to uint8 [n_rows, row_bytes]."""
    return blocks.reshape(len(rows), -1)


def nearest_int(value: Floats) -> Ints:
    """Nearest integer, half to even, read out of the low bits of a sum as the engine does.

    Up to 2^22 in magnitude that is rounding. Beyond, and for infinities and NaNs, it is what stands in those bits: a wrong
    number, but the engine's; 0 for the NaN that an invalid operation gives.
    """
    bits = (value + ROUNDING).view(np.int32)
    bits &= 0x007FFFFF
    bits -= 0x00400000
    return bits


def clipped_int(value: Floats, low: int, high: int) -> Ints:
    """`nearest_int` limited to low .. high."""
    whole = nearest_int(value)
    np.maximum(whole, low, out=whole)
    return np.minimum(whole, high, out=whole)


def round_half_away(value: Floats) -> Floats:
    """Nearest integer, half away from zero: C's roundf."""
    whole = np.trunc(value)
    whole += np.copysign(np.abs(value - whole) >= f32(0.5), value)
    return whole


def truncated(value: Floats) -> Ints:
    """Towards zero to int32. What does not fit, and NaN, gives -2^31: C leaves it open, x86-64 answers that."""
    fits = np.abs(value) < f32(2**31)
    return np.where(fits, value, f32(-(2**31))).astype(np.int32)


def to_half(value: Floats) -> NDArray[np.float16]:
    """To binary16, half to even; beyond 65519.99 infinity, and every NaN becomes the quiet one with its sign."""
    half = value.astype("<f2")
    bits = half.view(np.uint16)
    np.copyto(bits, bits & 0x8000 | 0x7E00, where=np.isnan(value))
    return half


def from_half(half: NDArray[np.float16]) -> Floats:
    """Binary16 to binary32, exactly."""
    return half.astype(np.float32)


def half_bytes(half: NDArray[np.float16]) -> Bytes:
    """Binary16 [n] to its little-endian bytes uint8 [n, 2]."""
    return half.reshape(-1, 1).view(np.uint8)


def reciprocal(value: Floats) -> Floats:
    """1 / value, and 0 where value is 0."""
    return np.divide(f32(1), value, out=np.zeros_like(value), where=value != 0)


def ordered_sum(terms: Floats, *, from_zero: bool = True) -> Floats:
    """Sum of [k, n] over k, term by term: float32 [n]; from 0 or from the first term, which tells on a sum of -0.0."""
    if terms.shape[1] == 1:  # numpy would sum one column pairwise; accumulating is in order by definition
        total: Floats = np.add.accumulate(terms)[-1]
    else:
        total = np.add.reduce(terms, axis=0, initial=None)
    return total + f32(0) if from_zero else total


def square_sum(rows: Floats) -> Floats:
    """Sum of the squares of each row [n_rows], from the left in float32."""
    squares = rows * rows
    total: Floats = np.add.accumulate(squares, axis=1, out=squares)[:, -1]
    return total


def importance(rows: Floats, weights: Floats, block: int, mean: Floats) -> Floats:
    """weight * sqrt(mean + x^2) as lanes [block, n_blocks], mean [n_rows] being of the squares of the row.

    Rows [n_rows, n]; weights [n], or [k, n] for k rows that follow one another again and again.
    """
    x = lanes(rows, block)
    w = lanes(weights, block)
    means = np.repeat(mean, rows.shape[1] // block)
    return np.tile(w, x.shape[1] // w.shape[1]) * np.sqrt(means + x * x)


def row_importance(rows: Floats, weights: Floats, block: int) -> Floats:
    """weight * sqrt(mean square of the row + x^2) as lanes [block, n_blocks]; weights [n_cols]."""
    return importance(rows, weights, block, square_sum(rows) / f32(rows.shape[1]))


def largest_magnitude(x: Floats) -> tuple[Floats, Floats]:
    """|v| and v [n] for the v of largest magnitude of each column of [k, n]; the first of several, 0 without any."""
    magnitude, largest, value = np.abs(x), np.zeros(x.shape[1:], f32), np.zeros(x.shape[1:], f32)
    for lane, size in zip(x, magnitude, strict=True):
        larger = size > largest
        np.copyto(largest, size, where=larger)
        np.copyto(value, lane, where=larger)
    return largest, value


def largest_after_nan(x: Floats) -> Floats:
    """Largest magnitude [n] of each column of [k, n]; a NaN makes the engine forget what came before it."""
    magnitude = np.abs(x)
    largest = np.zeros(x.shape[1:], f32)
    for size in magnitude:
        np.copyto(largest, size, where=~(largest > size))
    return largest


def smallest_and_largest(x: Floats, *, numbers: bool = False) -> tuple[Floats, Floats]:
    """Least and greatest value [n] of each column of [k, n], the first of several zeros.

    A NaN in the first lane stays, others are passed over; with `numbers` every NaN is: then the search starts from the
    largest finite numbers.
    """
    limit = np.finfo(np.float32).max
    smallest = np.full(x.shape[1:], limit, f32) if numbers else x[0].copy()
    largest = np.full(x.shape[1:], -limit, f32) if numbers else x[0].copy()
    for lane in x:
        np.copyto(smallest, lane, where=lane < smallest)
        np.copyto(largest, lane, where=lane > largest)
    return smallest, largest
