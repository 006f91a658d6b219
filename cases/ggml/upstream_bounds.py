"""What llama.cpp's own bounds would let through: known faults planted into right decodes, judged by its bounds and by ours.

`python -m cases.ggml.upstream_bounds` writes docs/upstream-bounds.md anew from the pinned engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cases.ggml.quantize_fns import (
    IN_UPSTREAM,
    NEEDS_IMPORTANCE,
    SIZE,
    activation_of,
    holds,
    upstream_data,
    upstream_dot_error,
    upstream_rmse,
)
from harness.comparison.accumulate import compare
from harness.comparison.bounds import BIT_EXACT
from harness.paths import REPOSITORY
from harness.verdicts import Verdict
from kernels.provider import dequantize
from kernels.units import Unit, unit
from oracles.pool import Oracle, Pool

PAGE = REPOSITORY / "docs" / "upstream-bounds.md"

Values = npt.NDArray[np.float32]
Plant = Callable[[Values, Unit], Values | None]

LEAST_BLOCK = 32
"""Encodings without blocks get faults of this many elements where others have a block."""


@dataclass(frozen=True)
class Fault:
    """A way of being wrong: `plant` returns a wrong copy of right values, or None where the encoding has no such fault."""

    name: str
    words: str
    plant: Plant


def _blocks(values: Values, found: Unit) -> Values:
    return values.reshape(-1, max(LEAST_BLOCK, found.block_elems))


def _in_last_block(change: Callable[[Values], Values]) -> Plant:
    def plant(values: Values, found: Unit) -> Values:
        wrong = values.copy()
        block = _blocks(wrong, found)[-1]
        block[:] = change(block.copy())
        return wrong

    return plant


def _in_every_block(change: Callable[[Values], Values]) -> Plant:
    def plant(values: Values, found: Unit) -> Values:
        wrong = values.copy()
        blocks = _blocks(wrong, found)
        for block in blocks:
            block[:] = change(block.copy())
        return wrong

    return plant


def _at_the_end(value: float) -> Plant:
    def plant(values: Values, _: Unit) -> Values:
        wrong = values.copy()
        wrong[-1] = value
        return wrong

    return plant


def _step(block: Values) -> np.float32:
    """The smallest distance between two values of a block: one code's worth."""
    gaps = np.diff(np.unique(block))
    return np.float32(gaps[gaps > 0].min(initial=np.float32(np.inf)))


def _shifted(sign: int) -> Plant:
    def plant(values: Values, found: Unit) -> Values | None:
        if not any(field.role == "scale" for field in found.fields):
            return None
        return _in_last_block(lambda block: block + np.float32(sign) * _step(block))(values, found)

    return plant


def _halves(block: Values) -> Values:
    return np.roll(block.reshape(-1, LEAST_BLOCK), LEAST_BLOCK // 2, axis=1).reshape(-1)


def _one_code_off(values: Values, found: Unit) -> Values:
    wrong = values.copy()
    wrong[-1] += _step(_blocks(values, found)[-1])
    return wrong


def _last_row(values: Values, _: Unit) -> Values:
    wrong = values.copy()
    wrong.reshape(64, -1)[-1] = 0
    return wrong


def _one_ulp(values: Values, _: Unit) -> Values:
    wrong = values.copy()
    wrong[-1] = np.nextafter(wrong[-1], np.float32(np.inf))
    return wrong


def _neighbour(values: Values, found: Unit) -> Values:
    """The last block has the scale of the one before: its amplitude, as far as that can be told from values."""
    wrong = values.copy()
    blocks = _blocks(wrong, found)
    here, there = (np.abs(blocks[at]).max() for at in (-1, -2))
    blocks[-1] *= np.float32(there / here)
    return wrong


FAULTS = (
    Fault("zero block", "the last block is zero", _in_last_block(np.zeros_like)),
    Fault("zero row", "the last of 64 rows of 64 is zero", _last_row),
    Fault("sign of block", "the last block has the wrong sign", _in_last_block(np.negative)),
    Fault(
        "swapped nibbles", "the halves of each 32 are exchanged in the last block", _in_last_block(_halves)
    ),
    Fault("all nibbles swapped", "the halves of each 32 are exchanged everywhere", _in_every_block(_halves)),
    Fault("zero-point +1", "the last block is one code too high", _shifted(1)),
    Fault("zero-point -1", "the last block is one code too low", _shifted(-1)),
    Fault("scales +1 %", "every scale is 1 % too large", _in_every_block(lambda b: b * np.float32(1.01))),
    Fault("neighbour's scale", "the last block has the scale of the one before", _neighbour),
    Fault("reversed block", "the last block is in reverse order", _in_last_block(lambda b: b[::-1])),
    Fault("last element", "the last element is zero, as if it had never been written", _at_the_end(0.0)),
    Fault("one code", "the last element is one code off", _one_code_off),
    Fault("one ulp", "the last element is one representable number off", _one_ulp),
    Fault("NaN", "the last element is NaN", _at_the_end(np.nan)),
    Fault("infinity", "the last element is infinite", _at_the_end(np.inf)),
    Fault("1e6", "the last element is a million", _at_the_end(1e6)),
)


@dataclass(frozen=True)
class Found:
    """What each side says about one fault in one encoding. A side that catches nothing holds the fault for right."""

    encoding: str
    fault: str
    upstream: tuple[str, ...]
    ours: Verdict


def judged(encoding: str, engine: Oracle) -> Iterator[Found]:
    """Every fault that an encoding can have, in upstream's data as the engine quantizes it.

    `upstream` names its checks that see the fault: the distance of the decode from the data, and that of the product
    of the decode with the (right) activations from the product of the data.
    """
    found, other = unit(encoding), activation_of(encoding)
    data, activations = upstream_data(0), upstream_data(1)
    arrays: dict[str, npt.NDArray[Any]] = {"values": data.reshape(1, -1)}
    if encoding in NEEDS_IMPORTANCE:
        arrays["imatrix"] = np.ones(SIZE, np.float32)
    encoded = engine.call("quantize", {"encoding": encoding}, arrays).arrays["data"]
    right = dequantize(encoding, encoded, (SIZE,))
    y = engine.call("quantize_activation", {"encoding": encoding}, {"values": activations.reshape(1, -1)})
    partner = dequantize(other.encoding, y.arrays["data"].reshape(-1), (SIZE,))
    for fault in FAULTS:
        wrong = fault.plant(right, found)
        if wrong is None or np.array_equal(wrong.view(np.uint32), right.view(np.uint32)):
            continue
        with np.errstate(all="ignore"):
            dot = upstream_dot_error(float(wrong.astype(np.float64) @ partner), data, activations)
            seen = {
                "total": holds("total_error", encoding, upstream_rmse(data, wrong)),
                "dot": holds("dot_error", encoding, dot),
            }
        ours = compare(wrong, right, BIT_EXACT, found.block_elems).verdict
        yield Found(encoding, fault.name, tuple(name for name, held in seen.items() if held is False), ours)


def everything(engine: Oracle) -> list[Found]:
    """All faults in all the types that upstream's loop reaches."""
    return [entry for encoding in sorted(IN_UPSTREAM) for entry in judged(encoding, engine)]


_HEAD = """# What upstream's bounds let through

This page answers: which wrong decodes would llama.cpp's own `test-quantize-fns` call right, and does ours?

Its data (4,096 numbers, `0.1 + 2 cos(i)`) is quantized by the pinned engine and decoded; a known fault is planted into the
right values; upstream's two statistics of a decode, with upstream's limits, and our bound (the same bits) judge the
result. The third check compares two quantizers of the engine with each other and never sees a decode that is wrong in
both. `{command}` wrote this page; a test fails when it is not current.

Upstream's first statistic is `sqrt(sum d^2) / n`: by dividing by n where a root mean square divides by its root, it makes an error
64 times smaller than it is, and it averages a fault in one block over all of them.
"""


def page(found: list[Found]) -> str:
    """The Markdown page."""
    faults = [fault for fault in FAULTS if any(entry.fault == fault.name for entry in found)]
    cells = {(entry.encoding, entry.fault): entry for entry in found}
    missed = [entry for entry in found if not entry.upstream]
    unseen = [entry for entry in found if entry.ours is Verdict.PASS]
    lines = [
        _HEAD.format(command="python -m cases.ggml.upstream_bounds"),
        f"Of {len(found)} planted faults, upstream's bounds let {len(missed)} through and ours {len(unseen)}.",
        "",
        "| fault | planted | let through by upstream | let through by ours |",
        "| --- | --- | --- | --- |",
    ]
    for fault in faults:
        of = [entry for entry in found if entry.fault == fault.name]
        through = sum(not entry.upstream for entry in of)
        ours = sum(entry.ours is Verdict.PASS for entry in of)
        lines.append(f"| **{fault.name}**: {fault.words} | {len(of)} | {through} | {ours} |")
    lines += [
        "",
        "By encoding: which of upstream's checks sees the fault. **-** is a fault that it calls right; an empty cell, a fault",
        "that the encoding cannot have. Ours sees each of them.",
        "",
        f"| encoding | {' | '.join(fault.name for fault in faults)} |",
        f"| --- |{' --- |' * len(faults)}",
    ]
    for encoding in sorted({entry.encoding for entry in found}):
        row = (_cell(cells.get((encoding, fault.name))) for fault in faults)
        lines.append(f"| `{encoding}` | {' | '.join(row)} |")
    return "\n".join([*lines, ""])


def _cell(entry: Found | None) -> str:
    return "" if entry is None else ", ".join(entry.upstream) or "**-**"


def main() -> None:
    with Pool() as pool:
        PAGE.write_text(page(everything(pool.get("llama_cpp.ops"))), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
