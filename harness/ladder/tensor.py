"""One tensor: the subject's decode against each judge's, and what is known about a difference.

The subject decodes the tensor whole, as its users would: a fault that only shows at a large offset must be able to
show. The judges decode it in runs of blocks, so that their answers never take more memory than a few tens of megabytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.comparison.accumulate import Accumulator, Comparison
from harness.comparison.bounds import BIT_EXACT
from harness.comparison.diagnose import diagnose
from harness.ladder.judge import Judge, decoded
from harness.subjects.base import Kernel, Subject
from harness.verdicts import Side, Verdict
from kernels.units import Unit
from oracles.worker_process import ProviderError

RUN_ELEMENTS = 4 << 20
"""Elements that a judge decodes in one call: 16 MiB of float32."""


@dataclass
class Outcome:
    """The verdict on one tensor, with what led to it. `comparison` is with the judge named in `judge`."""

    verdict: Verdict
    side: Side
    message: str = ""
    stderr: str = ""
    comparison: Comparison | None = None
    judge: str | None = None
    judges: tuple[str, ...] = ()
    kernel: Kernel | None = None
    diagnosis: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    values: npt.NDArray[np.float32] | None = None
    fingerprint: bytes = b""


def rows_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor of any rank: all leading dimensions together are rows."""
    columns = shape[-1] if shape else 1
    return math.prod(shape[:-1]), columns


def row_bytes(unit: Unit, rows: range, columns: int) -> slice:
    """The bytes of a run of rows."""
    per_row = columns // unit.block_elems * unit.block_bytes
    return slice(rows.start * per_row, rows.stop * per_row)


def _blocks(unit: Unit, start: int, stop: int) -> slice:
    """The bytes of the elements from `start` to `stop`, both at the border of a block."""
    return slice(start // unit.block_elems * unit.block_bytes, stop // unit.block_elems * unit.block_bytes)


def compare_tensor(
    unit: Unit,
    data: npt.NDArray[np.uint8],
    shape: tuple[int, ...],
    subject: Subject,
    judges: Sequence[Judge],
    *,
    repeat: int,
    timeout: float,
) -> Outcome:
    """Decode `data` `[n_bytes] uint8` on both sides and judge it bit for bit.

    `values` of the outcome are the subject's, kept only when it differs. A judge that fails costs this tensor
    (ERROR_RUN, TIMEOUT, … on the oracle's side); two judges that differ make it ORACLE_DISAGREE, whatever the
    subject says.
    """
    if not math.prod(shape):
        return Outcome(Verdict.NOT_RUN, Side.SUBJECT, "the tensor is empty: there is nothing to compare")
    able = [judge for judge in judges if judge.supports("dequantize", unit.encoding)]
    broken = [judge for judge in judges if ("dequantize", unit.encoding) in judge.failures]
    if not able or able[0] is not judges[0] or broken:
        # The judge that was asked for decides or nobody does; one whose known answers fail is never left out in silence.
        reason = (broken or judges)[0].why_not("dequantize", unit.encoding)
        return Outcome(Verdict.NOT_RUN, Side.ORACLE, f"no verdict on {unit.encoding}: {reason}")
    try:
        produced = subject.dequantize(unit, data, shape, repeat=repeat, timeout=timeout)
    except ProviderError as error:
        return Outcome(error.verdict, Side.SUBJECT, error.message, error.stderr)
    names = tuple(judge.name for judge in able)
    outcome = Outcome(Verdict.PASS, Side.SUBJECT, kernel=produced.kernel, judges=names, judge=names[0])
    outcome.seconds[subject.name] = produced.seconds
    outcome.fingerprint = _fingerprint(produced.values)
    _judge(outcome, unit, data, produced.values, able, timeout)
    if outcome.side is Side.SUBJECT and produced.unstable:
        outcome.verdict, outcome.message = (
            Verdict.FAIL_NONDET,
            f"run again on the same bytes: {produced.unstable}",
        )
    elif outcome.verdict is Verdict.PASS and produced.unwritten:
        # NaN is right wherever the poison stands, so the comparison saw nothing; where it is not, it says more.
        outcome.verdict, outcome.message = Verdict.FAIL_NONFINITE, produced.unwritten
    elif outcome.verdict in (Verdict.FAIL_VALUE, Verdict.FAIL_NONFINITE) and repeat < 2:
        _check_stable(outcome, unit, data, produced.values, subject, timeout)
    if outcome.verdict is not Verdict.PASS:
        outcome.values = produced.values
        _explain(outcome, unit, data, shape, able[0], timeout)
    return outcome


def _fingerprint(values: npt.NDArray[np.float32]) -> bytes:
    """64 values spread over the tensor: enough to recognise the result of another call."""
    return values.reshape(-1)[:: max(1, values.size // 64)].tobytes()


def _judge(
    outcome: Outcome,
    unit: Unit,
    data: npt.NDArray[np.uint8],
    values: npt.NDArray[np.float32],
    judges: Sequence[Judge],
    timeout: float,
) -> None:
    against = Accumulator(values.shape, BIT_EXACT, unit.block_elems)
    between = [Accumulator(values.shape, BIT_EXACT, unit.block_elems) for _ in judges[1:]]
    flat = values.reshape(-1)
    # Rows are whole blocks, so a run of blocks may begin and end anywhere: one long row is split like many short ones.
    step = RUN_ELEMENTS // unit.block_elems * unit.block_elems
    for start in range(0, flat.size, step):
        stop = min(flat.size, start + step)
        piece = data[_blocks(unit, start, stop)]
        answers = []
        for judge in judges:
            try:
                answer, seconds = decoded(judge, unit.encoding, piece, (1, stop - start), timeout)
            except ProviderError as error:
                outcome.verdict, outcome.side = error.verdict, Side.ORACLE
                outcome.message, outcome.stderr, outcome.judge = error.message, error.stderr, judge.name
                return
            outcome.seconds[judge.name] = outcome.seconds.get(judge.name, 0.0) + seconds
            answers.append(answer.reshape(-1))
        against.feed(flat[start:stop], answers[0])
        for accumulator, answer in zip(between, answers[1:], strict=True):
            accumulator.feed(answer, answers[0])
    outcome.comparison = against.result()
    outcome.verdict, outcome.message = outcome.comparison.verdict, outcome.comparison.reason
    for judge, accumulator in zip(judges[1:], between, strict=True):
        disagreement = accumulator.result()
        if disagreement.verdict is not Verdict.PASS:
            outcome.message = f"{judge.name} and {judges[0].name} differ: {disagreement.reason}" + (
                "; the subject agrees with the latter" if outcome.verdict is Verdict.PASS else ""
            )
            outcome.verdict, outcome.side, outcome.comparison = (
                Verdict.ORACLE_DISAGREE,
                Side.ORACLE,
                disagreement,
            )


def _check_stable(
    outcome: Outcome,
    unit: Unit,
    data: npt.NDArray[np.uint8],
    values: npt.NDArray[np.float32],
    subject: Subject,
    timeout: float,
) -> None:
    """Tell a subject that is wrong from one that gives other bits every time."""
    try:
        again = subject.dequantize(unit, data, values.shape, repeat=1, timeout=timeout).values
    except ProviderError as error:
        outcome.verdict, outcome.message = (
            Verdict.FAIL_NONDET,
            f"a second run on the same bytes: {error.message}",
        )
        return
    changed = np.flatnonzero(again.reshape(-1).view(np.uint32) != values.reshape(-1).view(np.uint32))
    if changed.size:
        outcome.verdict = Verdict.FAIL_NONDET
        outcome.message = f"run again on the same bytes: {changed.size} elements changed; {outcome.message}"


def _explain(
    outcome: Outcome,
    unit: Unit,
    data: npt.NDArray[np.uint8],
    shape: tuple[int, ...],
    judge: Judge,
    timeout: float,
) -> None:
    """Look at the worst element's row once more and say what the fault looks like."""
    if outcome.side is Side.ORACLE or outcome.comparison is None or outcome.comparison.worst is None:
        return
    where = outcome.comparison.worst.place
    _, columns = rows_of(shape)
    assert outcome.values is not None
    row = data[row_bytes(unit, range(where.row, where.row + 1), columns)]
    try:
        wanted, _ = decoded(judge, unit.encoding, row, (1, columns), timeout)
    except ProviderError:
        return
    got = outcome.values.reshape(-1, columns)[where.row : where.row + 1]
    outcome.diagnosis = diagnose(got, wanted, unit.block_elems, 0, where.block, _scales(unit, row))


def _scales(unit: Unit, row: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32] | None:
    """The half-precision scale of each block of a row, where a block has exactly one."""
    fields = [
        field for field in unit.fields if field.role == "scale" and field.type == "f16" and field.count == 1
    ]
    if len(fields) != 1:
        return None
    start = fields[0].offset
    return (
        row.reshape(-1, unit.block_bytes)[:, start : start + 2]
        .copy()
        .view("<f2")
        .astype(np.float32)
        .reshape(-1)
    )
