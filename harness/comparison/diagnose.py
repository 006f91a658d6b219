"""What a difference looks like: the known ways of getting a block wrong, tried on the block that holds the worst element.

A diagnosis is a hint for the person who reads the verdict. It never changes the verdict.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]


def diagnose(
    subject: Values, oracle: Values, block_elems: int, row: int, block: int, scales: Values | None = None
) -> str | None:
    """A sentence for the block at (`row`, `block`) of two `[rows, columns]` arrays, or None when no pattern fits.

    `scales` `[blocks of the row]` are the stored scales of the row's blocks, where the encoding has one of its own.
    """
    span = slice(block * block_elems, (block + 1) * block_elems)
    got, wanted = subject[row, span], oracle[row, span]
    if scales is not None and (found := _other_scale(got, wanted, scales, block)):
        return found
    for pattern in PATTERNS:
        if found := pattern(got, wanted, oracle, row, block):
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


def _narrowed(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    """The right values through a narrower type, judged on the whole row: a single block can fit by chance."""
    finite = np.isfinite(wanted)
    if not finite.any():
        return None
    with np.errstate(over="ignore"):
        half = wanted.astype(np.float16).astype(np.float32)
    bits = wanted.view(np.uint32)
    cut = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    for name, values in (("float16", half), ("bfloat16", rounded), ("bfloat16 by truncation", cut)):
        if _same(got, values):
            return f"the right values rounded to {name}"
    return None


def _unsigned(got: Values, wanted: Values, oracle: Values, row: int, block: int) -> str | None:
    """Signed 8-bit codes read as unsigned: negative weights are off by 256 scales, the others are right."""
    negative = got != wanted
    if not (negative.any() and (~negative).any() and np.isfinite(got).all() and np.isfinite(wanted).all()):
        return None
    shift = got[negative].astype(np.float64) - wanted[negative].astype(np.float64)
    step = float(np.median(shift))
    below = np.sign(wanted[negative]) == -np.sign(step)
    same = np.abs(shift - step) <= 1e-5 * abs(step)
    largest = np.abs(wanted[~negative]).max() if (~negative).any() else 0.0
    if bool(np.all(below & same)) and largest <= abs(step) / 2:
        return "signed codes are read as unsigned: every weight on one side of zero is off by the same amount"
    return None


def _other_scale(got: Values, wanted: Values, scales: Values, block: int) -> str | None:
    ratio = _ratio(got, wanted)
    if ratio is None or not scales[block]:
        return None
    for other in range(max(0, block - 2), min(len(scales), block + 3)):
        factor = float(scales[other]) / float(scales[block])
        if other != block and factor != 1.0 and abs(ratio - factor) <= 1e-5 * abs(factor):
            return f"the block is decoded with the scale of block {other} of the same row"
    return None


PATTERNS = (
    *(_never_written, _zeroed, _narrowed, _one_element, _sign, _order, _other_block, _unsigned),
    *(_scale, _offset),
)
