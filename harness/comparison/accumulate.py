"""Comparison in one pass over pieces of any size, so that a tensor larger than memory can be judged.

Order of the checks: shape, dtype, NaN mask, sign of infinities, then `not (error <= bound)` on every element.
The order matters: NaN compares false, so a check of the form `error > bound` would pass it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.comparison.bounds import Bound
from harness.comparison.locate import Place, place
from harness.verdicts import Verdict

_PIECE = 1 << 20
"""Elements judged at a time: keeps the float64 temporaries of a difference small."""


@dataclass(frozen=True)
class Divergence:
    """The worst element of a comparison that failed."""

    place: Place
    subject: float
    oracle: float
    subject_bits: str
    oracle_bits: str
    bound: float
    ulp: int | None


@dataclass(frozen=True)
class Comparison:
    """What a comparison found. `diverged` counts elements that are outside the bound, `differing` those whose bits differ.

    `max_abs` is over elements that are finite on both sides; `max_ulp` counts representable values between the
    two, with -0.0 and +0.0 one apart. `smallest_passing_bound` is the absolute error bound under which the same
    result would have passed: infinity when NaN or infinity stands where the other side has a number.
    """

    verdict: Verdict
    checked: int
    diverged: int
    differing: int
    max_abs: float
    max_ulp: int
    smallest_passing_bound: float
    worst: Divergence | None
    reason: str

    @property
    def bit_exact(self) -> bool:
        return self.verdict is Verdict.PASS and self.differing == 0 and self.checked > 0


def failed(verdict: Verdict, reason: str, elements: int = 0) -> Comparison:
    """A comparison that ended before any element was judged (shape, dtype, nothing to compare)."""
    return Comparison(verdict, 0, elements, elements, 0.0, 0, float("inf"), None, reason)


def ulp_distance(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """Representable values between two arrays of one floating type, element by element; -0.0 and +0.0 are 1 apart."""
    distance: npt.NDArray[np.int64] = np.abs(_ordered(a) - _ordered(b))
    return distance


def _ordered(values: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    signed = values.view(np.dtype(f"i{values.dtype.itemsize}")).astype(np.int64)
    magnitude = signed & ((1 << (8 * values.dtype.itemsize - 1)) - 1)
    ordered: npt.NDArray[np.int64] = np.where(signed < 0, -magnitude - 1, signed)
    return ordered


class Accumulator:
    """Feeds pieces of subject and oracle in flat order and keeps the worst element."""

    def __init__(self, shape: tuple[int, ...], bound: Bound, block_elems: int = 1) -> None:
        self._shape = shape
        self._bound = bound
        self._block_elems = block_elems
        self._checked = 0
        self._diverged = 0
        self._differing = 0
        self._nan = 0
        self._infinite = 0
        self._max_abs = 0.0
        self._max_ulp = 0
        self._worst: tuple[tuple[int, float, int], Divergence] | None = None

    def feed(self, subject: npt.NDArray[np.floating], oracle: npt.NDArray[np.floating]) -> None:
        """Judge the next run of elements. Both are flat, of one dtype and length: the caller has checked that."""
        if subject.shape != oracle.shape or subject.dtype != oracle.dtype:
            raise ValueError(
                f"pieces do not match: {subject.dtype}{subject.shape}, {oracle.dtype}{oracle.shape}"
            )
        bits = np.dtype(f"u{subject.dtype.itemsize}")
        for start in range(0, subject.size, _PIECE):
            a, b = subject[start : start + _PIECE], oracle[start : start + _PIECE]
            if not np.array_equal(a.view(bits), b.view(bits)):
                self._judge(a, b, bits)
            self._checked += a.size

    def _judge(self, a: npt.NDArray[np.floating], b: npt.NDArray[np.floating], bits: np.dtype) -> None:
        a_nan, b_nan = np.isnan(a), np.isnan(b)
        differs = (a.view(bits) != b.view(bits)) & ~(a_nan & b_nan)
        where = np.flatnonzero(differs)
        if where.size == 0:
            return
        self._differing += where.size
        x, y = a[where], b[where]
        nan = a_nan[where] | b_nan[where]
        infinite = ~nan & (np.isinf(x) | np.isinf(y))
        finite = ~(nan | infinite)
        error = np.full(where.size, np.inf)
        error[finite] = np.abs(x[finite].astype(np.float64) - y[finite].astype(np.float64))
        ulp = ulp_distance(x, y)
        limit = np.broadcast_to(self._bound.between(self._checked, self._checked + a.size), a.shape)[where]
        outside = nan | infinite | (self._bound.exact | ~(error <= limit))
        self._diverged += int(np.count_nonzero(outside))
        self._nan += int(np.count_nonzero(nan))
        self._infinite += int(np.count_nonzero(infinite))
        if finite.any():
            self._max_abs = max(self._max_abs, float(error[finite].max()))
            self._max_ulp = max(self._max_ulp, int(ulp[finite].max()))
        if outside.any():
            self._keep_worst(where, x, y, nan, infinite, error, limit, ulp, outside)

    def _keep_worst(  # one flat call keeps the masks in one place
        self,
        where: npt.NDArray[np.intp],
        x: npt.NDArray[np.floating],
        y: npt.NDArray[np.floating],
        nan: npt.NDArray[np.bool_],
        infinite: npt.NDArray[np.bool_],
        error: npt.NDArray[np.float64],
        limit: npt.NDArray[np.float64],
        ulp: npt.NDArray[np.int64],
        outside: npt.NDArray[np.bool_],
    ) -> None:
        """Worst: NaN before infinity before the largest error in bounds (or, when bits decide, in value, then in ulp)."""
        severity = np.where(nan, 3, np.where(infinite, 2, np.where(outside, 1, 0)))
        top = int(severity.max())
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = error if self._bound.exact else np.where(limit > 0, error / limit, error * np.inf)
        excess = np.where(
            severity == top, np.nan_to_num(excess, nan=np.inf, posinf=np.finfo(np.float64).max), -1.0
        )
        ties = np.flatnonzero(excess == excess.max())
        pick = int(ties[np.argmax(ulp[ties])])
        rank = (top, float(excess[pick]), int(ulp[pick]))
        if self._worst is not None and rank <= self._worst[0]:
            return
        finite = top == 1
        index = self._checked + int(where[pick])
        self._worst = (
            rank,
            Divergence(
                place(index, self._shape, self._block_elems),
                float(x[pick]),
                float(y[pick]),
                _hex(x[pick : pick + 1]),
                _hex(y[pick : pick + 1]),
                self._bound.at(index),
                int(ulp[pick]) if finite else None,
            ),
        )

    def result(self) -> Comparison:
        """The verdict over everything that was fed. Fewer elements than the shape holds is no pass."""
        elements = int(np.prod(self._shape, dtype=np.int64))
        if self._checked == 0:
            return failed(Verdict.NOT_RUN, "nothing to compare: no element was produced")
        if self._checked != elements:
            return failed(
                Verdict.FAIL_SHAPE, f"{self._checked} elements compared, the shape holds {elements}"
            )
        nonfinite = self._nan + self._infinite
        if nonfinite:
            verdict = Verdict.FAIL_NONFINITE
            reason = f"{self._nan} elements differ in being NaN, {self._infinite} in an infinity or its sign"
        elif self._diverged:
            verdict = Verdict.FAIL_VALUE
            wanted = "the same bits" if self._bound.exact else f"an error within {self._bound.derivation}"
            reason = f"{self._diverged} of {self._checked} elements differ, wanted {wanted}"
        else:
            verdict, reason = Verdict.PASS, ""
        return Comparison(
            verdict,
            self._checked,
            self._diverged,
            self._differing,
            self._max_abs,
            self._max_ulp,
            float("inf") if nonfinite else self._max_abs,
            self._worst[1] if self._worst else None,
            reason,
        )


def _hex(element: npt.NDArray[np.floating]) -> str:
    size = element.dtype.itemsize
    return f"0x{int(element.view(np.dtype(f'u{size}'))[0]):0{2 * size}x}"


def compare(
    subject: npt.NDArray[np.floating], oracle: npt.NDArray[np.floating], bound: Bound, block_elems: int = 1
) -> Comparison:
    """Judge a whole result: shape, dtype, NaN mask, sign of infinities, then every element against the bound."""
    if subject.shape != oracle.shape:
        return failed(
            Verdict.FAIL_SHAPE, f"got shape {list(subject.shape)}, wanted {list(oracle.shape)}", oracle.size
        )
    if subject.dtype != oracle.dtype:
        return failed(Verdict.FAIL_DTYPE, f"got dtype {subject.dtype}, wanted {oracle.dtype}", oracle.size)
    accumulator = Accumulator(oracle.shape, bound, block_elems)
    accumulator.feed(np.ascontiguousarray(subject).reshape(-1), np.ascontiguousarray(oracle).reshape(-1))
    return accumulator.result()
