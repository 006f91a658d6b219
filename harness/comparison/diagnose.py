"""What a difference looks like: the known ways of getting a block wrong, tried on the block that holds the worst element.

A diagnosis is a hint for the person who reads the verdict. It never changes the verdict.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]


def diagnose(subject: Values, oracle: Values, block_elems: int, row: int, block: int) -> str | None:
    """A sentence for the block at (`row`, `block`) of two `[rows, columns]` arrays, or None when no pattern fits."""
    span = slice(block * block_elems, (block + 1) * block_elems)
    got, wanted = subject[row, span], oracle[row, span]
    for pattern in (_never_written, _zeroed, _one_element, _sign, _order, _other_block, _scale, _offset):
        found = pattern(got, wanted, oracle, row, block)
        if found:
            return found
    return None


def _same(a: Values, b: Values) -> bool:
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=True))


def _never_written(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    poisoned = int(np.count_nonzero(got.view(np.uint32) == 0xFFFFFFFF))
    if poisoned == 0:
        return None
    return f"never written: {poisoned} of {got.size} elements of the block still hold the poison of the output buffer"


def _zeroed(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    return "the whole block is zero" if wanted.any() and not got.any() else None


def _one_element(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    differs = got.view(np.uint32) != wanted.view(np.uint32)
    if got.size > 1 and int(np.count_nonzero(differs & ~(np.isnan(got) & np.isnan(wanted)))) == 1:
        return f"one element of the block alone is wrong: lane {int(np.flatnonzero(differs)[0])}"
    return None


def _sign(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    return "the sign of the whole block is flipped" if wanted.any() and _same(got, -wanted) else None


def _order(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    if wanted.size % 2 or wanted.size < 4 or np.unique(wanted).size < 2:
        return None
    half = wanted.size // 2
    orders = {
        "low and high nibbles are swapped (halves of the block exchanged)": np.roll(wanted, half),
        "halves interleaved: element 2j and 2j+1 where the layout has j and j+n/2": wanted.reshape(
            2, half
        ).T.ravel(),
        "split halves where the layout interleaves: j and j+n/2 where it has 2j and 2j+1": wanted.reshape(
            half, 2
        ).T.ravel(),
        "neighbours exchanged: nibbles of each byte in the other order": wanted.reshape(half, 2)[
            :, ::-1
        ].ravel(),
        "the block is reversed": wanted[::-1],
    }
    if wanted.size == 256:
        grouped = wanted.reshape(4, 2, 32)
        orders["low and high nibbles are swapped within each group of 64"] = grouped[:, ::-1].ravel()
    for sentence, values in orders.items():
        if _same(got, values):
            return sentence
    return None


def _other_block(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    size = wanted.size
    blocks = oracle[row].size // size
    for other in range(max(0, block - 2), min(blocks, block + 3)):
        if other != block and wanted.any() and _same(got, oracle[row, other * size : (other + 1) * size]):
            return f"the block holds the values of block {other} of the same row"
    return None


def _ratio(got: Values, wanted: Values) -> float | None:
    """got / wanted when it is one number over the block, else None."""
    usable = np.isfinite(got) & np.isfinite(wanted) & (wanted != 0)
    if np.count_nonzero(usable) < 2 or np.any(got[~usable & np.isfinite(wanted)] != 0):
        return None
    ratios = got[usable].astype(np.float64) / wanted[usable].astype(np.float64)
    middle = float(np.median(ratios))
    return (
        middle if middle not in (0.0, 1.0) and np.all(np.abs(ratios - middle) <= 1e-5 * abs(middle)) else None
    )


def _scale(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    ratio = _ratio(got, wanted)
    return None if ratio is None else f"the block's scale is off by a factor of {ratio:.6g}"


def _offset(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    if got.size < 2 or not (np.isfinite(got).all() and np.isfinite(wanted).all()):
        return None
    shift = got.astype(np.float64) - wanted.astype(np.float64)
    middle = float(np.median(shift))
    spread = 4 * np.spacing(np.float32(np.abs(wanted).max() + abs(middle)))
    if middle == 0.0 or np.any(np.abs(shift - middle) > spread):
        return None
    return f"every element of the block is off by {middle:+.6g} (a zero-point or a minimum)"
