"""One result against every opinion about it. Pure: arrays in, a judgement out; the rules stand in docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.comparison.accumulate import Comparison, compare, failed
from harness.comparison.bounds import Bound
from harness.comparison.diagnose import diagnose
from harness.evidence.record import Judge, Worst
from harness.verdicts import Side, Verdict

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Opinion:
    """What one judge says the result is. `values` cannot be written to through it."""

    judge: Judge
    values: Array

    def __post_init__(self) -> None:
        # A view and no copy: that a subject lies in the same memory must stay visible.
        values = self.values.view()
        values.flags.writeable = False
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class Judged:
    """A verdict on one result, and what evidence keeps of the comparison that decided it."""

    verdict: Verdict
    side: Side
    message: str
    judges: tuple[Judge, ...]
    bound: str
    comparison: Comparison
    error_over_bound: float = 0.0

    @property
    def worst(self) -> Worst | None:
        """The worst element as evidence keeps it."""
        found = self.comparison.worst
        if found is None:
            return None
        where = found.place
        return Worst(
            index=where.index,
            row=where.row,
            block=where.block,
            lane=where.lane,
            subject=found.subject,
            oracle=found.oracle,
            bound=found.bound,
        )


def judge(subject: Array, opinions: Sequence[Opinion], bound: Bound, block_elems: int = 1) -> Judged:
    """Judge `subject` [shape] against each opinion [shape] under one bound.

    The first opinion decides about the subject. Opinions that differ from it by more than the bound make the verdict
    ORACLE_DISAGREE, whatever the subject says; without an opinion nothing was judged (NOT_RUN, oracle's side).
    """
    judges = tuple(opinion.judge for opinion in opinions)
    if not opinions:
        nothing = failed(Verdict.NOT_RUN, "no oracle has an opinion")
        return Judged(Verdict.NOT_RUN, Side.ORACLE, nothing.reason, (), bound.derivation, nothing)
    first, *others = opinions
    for other in others:
        between = compare(other.values, first.values, bound, block_elems)
        if between.verdict not in (Verdict.PASS, Verdict.NOT_RUN):
            message = f"{other.judge.pin} and {first.judge.pin} differ: {between.reason}"
            return Judged(Verdict.ORACLE_DISAGREE, Side.ORACLE, message, judges, bound.derivation, between)
    found = compare(subject, first.values, bound, block_elems)
    message = "" if found.verdict is Verdict.PASS else _words(subject, first, found, block_elems)
    return Judged(
        found.verdict,
        Side.SUBJECT,
        message,
        judges,
        bound.derivation,
        found,
        _error_over_bound(subject, first.values, bound, found),
    )


def _words(subject: Array, first: Opinion, found: Comparison, block_elems: int) -> str:
    """The reason, the worst element, and what the fault looks like."""
    message = f"against {first.judge.pin}: {found.reason}"
    if found.worst is None:
        return message
    worst, where = found.worst, found.worst.place
    message += (
        f"; worst at row {where.row}, block {where.block}, lane {where.lane}: got {worst.subject!r}"
        f" ({worst.subject_bits}), wanted {worst.oracle!r} ({worst.oracle_bits})"
    )
    columns = subject.shape[-1] if subject.ndim else 1
    if subject.dtype != np.float32 or columns % block_elems:
        return message
    got, wanted = (side.reshape(-1, columns)[where.row : where.row + 1] for side in (subject, first.values))
    pattern = diagnose(got, wanted, block_elems, 0, where.block)
    return f"{message}; {pattern}" if pattern else message


def judge_fields(
    ours: Mapping[str, object], theirs: Mapping[str, Mapping[str, object]], judges: Sequence[Judge]
) -> Judged:
    """Judge named fields over the union of both sides: what is missing on one side is a difference.

    `theirs` is one reading a judge, by the pin's name. Readings that differ from one another are ORACLE_DISAGREE.
    """
    if not theirs:
        return judge(np.zeros(0), (), Bound(None, "the same fields"))
    readings = list(theirs.items())
    first, reading = readings[0]
    between = [line for name, other in readings[1:] for line in _unlike(other, reading, name, first)]
    against = [line for name, other in readings for line in _unlike(ours, other, "ours", name)]
    checked = len({*ours, *reading})
    lines = between or against
    verdict = Verdict.ORACLE_DISAGREE if between else Verdict.FAIL_VALUE if against else Verdict.PASS
    if not checked:
        verdict, lines = Verdict.NOT_RUN, ["no field was compared"]
    side = Side.ORACLE if between or not checked else Side.SUBJECT
    message = "; ".join(lines[:8]) + (f"; and {len(lines) - 8} more" if len(lines) > 8 else "")
    found = Comparison(verdict, checked, len(lines), len(lines), 0.0, 0, 0.0, None, message)
    return Judged(verdict, side, message, tuple(judges), "the same fields", found)


def _unlike(a: Mapping[str, object], b: Mapping[str, object], a_name: str, b_name: str) -> list[str]:
    absent = object()
    return [
        f"{key}: {a_name} {_shown(a, key)}, {b_name} {_shown(b, key)}"
        for key in sorted({*a, *b})
        if a.get(key, absent) != b.get(key, absent)
    ]


def _shown(reading: Mapping[str, object], key: str) -> str:
    return repr(reading[key]) if key in reading else "(absent)"


def _error_over_bound(subject: Array, oracle: Array, bound: Bound, found: Comparison) -> float:
    """The largest error in units of its bound: infinity where no bound would have passed it."""
    if found.verdict is Verdict.PASS and (bound.exact or not found.differing):
        return 0.0
    if bound.exact or found.verdict not in (Verdict.PASS, Verdict.FAIL_VALUE):
        return float("inf")
    with np.errstate(all="ignore"):
        error = np.abs(subject.astype(np.float64) - oracle.astype(np.float64)).reshape(-1)
        limit = np.broadcast_to(bound.between(0, error.size), error.shape)
        ratio = np.where(error == 0, 0.0, np.where(np.isnan(error), 0.0, error / limit))
    return float(ratio.max(initial=0.0))
