"""The rung *tensors*: every tensor of a checkpoint decoded by subject and oracles, and compared bit for bit."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.containers.checkpoint import Checkpoint, TensorInfo
from harness.errors import Unavailable
from harness.ladder.judge import Judge
from harness.ladder.tensor import Outcome, compare_tensor
from harness.subjects.base import Subject
from harness.text import printable
from harness.verdicts import Side, Verdict
from kernels.units import Unit, load_units

BASE_SECONDS = 60.0
SECONDS_PER_MILLION = 2.0
"""Time that a provider may take for one call: 60 s, and 2 s more for each million weights (a slow Python loop)."""


PATIENCE = 3
"""Time-outs in a row after which the rest is not tried: a process that hangs would take hours."""


@dataclass(frozen=True)
class TensorVerdict:
    """One tensor of the checkpoint and what became of it. `elements` are weights."""

    tensor: TensorInfo
    unit: Unit | None
    elements: int
    repeated: bool
    outcome: Outcome


def select(checkpoint: Checkpoint, pattern: str | None) -> list[TensorInfo]:
    """The tensors whose names match the glob. Raises Unavailable when none does: a typo must not be a success."""
    if pattern is None:
        return list(checkpoint.tensors)
    chosen = [tensor for tensor in checkpoint.tensors if fnmatch.fnmatchcase(tensor.name, pattern)]
    if not chosen:
        names = ", ".join(printable(tensor.name) for tensor in checkpoint.tensors[:3])
        raise Unavailable(
            f"--tensors {printable(pattern)} matches none of the {len(checkpoint.tensors)} tensors ({names}, …): nothing to compare"
        )
    return chosen


def repeated_once(tensors: Sequence[TensorInfo], seed: int) -> set[str]:
    """One tensor of each encoding, drawn by `seed`, that the subject decodes twice: do the bits stay?"""
    by_encoding: dict[str | None, list[str]] = {}
    for tensor in tensors:
        by_encoding.setdefault(tensor.encoding, []).append(tensor.name)
    draw = random.Random(seed)  # a choice of samples, nothing secret
    return {draw.choice(names) for names in by_encoding.values()}


def compare_tensors(
    checkpoint: Checkpoint,
    tensors: Sequence[TensorInfo],
    subject: Subject,
    judges: Sequence[Judge],
    *,
    seed: int,
    on_difference: Callable[[TensorVerdict], None],
) -> Iterator[TensorVerdict]:
    """Compare the tensors one after the other. `on_difference` sees a verdict while the subject's values still exist."""
    units = load_units()
    twice = repeated_once(tensors, seed)
    before: tuple[str, bytes] | None = None
    timeouts = 0
    for tensor in tensors:
        found = units.get(tensor.encoding or "")
        elements = int(np.prod(tensor.shape, dtype=np.int64))
        if found is None:
            outcome = Outcome(Verdict.NOT_RUN, Side.SUBJECT, f"no unit for type {tensor.type_name}")
        elif timeouts >= PATIENCE:
            outcome = Outcome(Verdict.NOT_RUN, Side.SUBJECT, f"given up after {PATIENCE} time-outs in a row")
        else:
            timeout = BASE_SECONDS + SECONDS_PER_MILLION * elements / 1e6
            outcome = compare_tensor(
                found,
                checkpoint.little_endian_bytes(tensor.name),
                tensor.shape or (1,),
                subject,
                judges,
                repeat=2 if tensor.name in twice else 1,
                timeout=timeout,
            )
            if outcome.verdict in (Verdict.FAIL_VALUE, Verdict.FAIL_NONFINITE) and before is not None:
                name, fingerprint = before
                if fingerprint == outcome.fingerprint:
                    outcome.diagnosis = (
                        f"the result of the call before it came back (tensor {printable(name)})"
                    )
            before = (tensor.name, outcome.fingerprint)
            timeouts = timeouts + 1 if outcome.verdict is Verdict.TIMEOUT else 0
        verdict = TensorVerdict(tensor, found, elements, tensor.name in twice, outcome)
        if outcome.verdict is not Verdict.PASS:
            on_difference(verdict)
        outcome.values = None
        checkpoint.release(tensor.name)
        yield verdict
