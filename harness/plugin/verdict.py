"""The fixtures of a case: `verdict` judges its result, `guarded` gives memory that shows stray writes, `skip_case` skips."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest
from _pytest.outcomes import Skipped

from harness.comparison.accumulate import failed
from harness.comparison.bounds import BIT_EXACT, Bound
from harness.errors import UsageProblem
from harness.evidence.record import Judge
from harness.guard import GuardedBuffer, guarded_copy
from harness.plugin.expectations import Skipping, skip_misfit, skipping
from harness.plugin.families import case_of
from harness.plugin.judging import Array, Judged, Opinion, judge, judge_fields
from harness.plugin.memo import MEMO
from harness.verdicts import Side, Verdict
from oracles.memo import Memo


class CaseFailed(Exception):
    """A case whose verdict is not PASS. `judged` says which, and why."""

    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        side = "" if judged.side is Side.SUBJECT else " (the oracle, not the subject)"
        super().__init__(f"{judged.verdict}{side}: {judged.message}")


class NotJudged(Exception):
    """A case that ended without a verdict: it returned early, or asserts nothing."""


class NotAsExpected(Exception):
    """An expected failure that failed in another way, with `error`."""

    def __init__(self, message: str, error: BaseException) -> None:
        super().__init__(message)
        self.error = error


class CaseSkipped(Skipped):
    """A skip with its row, kind, reason and owner."""

    def __init__(self, skip: Skipping) -> None:
        super().__init__(f"{skip.row}, {skip.kind}: {skip.reason} ({skip.owner})")
        self.skip = skip


@dataclass
class State:
    """What is known about a case while it runs. `run` counts its `runs` from 0."""

    runs: int = 1
    run: int = 0
    judged: Judged | None = None
    judged_runs: int = 0
    kernel: str = ""
    device: str = ""
    subject: str = ""
    upstream_bound_holds: bool | None = None
    fingerprint: bytes | None = None
    seconds: float = 0.0
    buffers: list[GuardedBuffer] = field(default_factory=list)


STATE = pytest.StashKey[State]()


class Guarded:
    """Memory for a kernel that writes where it is told to: poisoned, with guard zones that are checked at the verdict."""

    def __init__(self, state: State) -> None:
        self._state = state

    def output(self, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """A result to be filled, every byte 0xFF."""
        size = int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
        self._state.buffers.append(GuardedBuffer(size))
        return self._state.buffers[-1].array(dtype, shape)

    def input(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A copy of `data` that a read past its end leaves for poison."""
        flat = np.ascontiguousarray(data)
        self._state.buffers.append(guarded_copy(flat.reshape(-1).view(np.uint8)))
        return self._state.buffers[-1].array(flat.dtype, flat.shape)


class CaseVerdict:
    """Judges the result of a case, once a run. Anything but PASS raises CaseFailed."""

    def __init__(self, state: State, memo: Memo) -> None:
        self._state = state
        self._memo = memo

    def __call__(
        self,
        subject: Array,
        opinions: Sequence[Opinion],
        *,
        kernel: str,
        bound: Bound = BIT_EXACT,
        device: str = "cpu",
        block_elems: int = 1,
        name: str = "reference",
        upstream_bound_holds: bool | None = None,
    ) -> None:
        """Judge `subject` [shape] against every opinion. `kernel` and `device` are those that really ran."""
        for opinion in opinions:
            if np.shares_memory(subject, opinion.values):
                raise UsageProblem(f"the subject is the array that {opinion.judge.pin} answered with")
        judged = judge(subject, opinions, bound, block_elems)
        self._state.upstream_bound_holds = upstream_bound_holds
        if judged.verdict is Verdict.PASS and upstream_bound_holds is False:
            words = (
                "our bound holds and upstream's does not: one of the two is wrong, or measures something else"
            )
            judged = dataclasses.replace(
                judged, verdict=Verdict.ORACLE_DISAGREE, side=Side.ORACLE, message=words
            )
        self.record(judged, kernel=kernel, device=device, name=name, result=subject)

    def fields(
        self,
        ours: Mapping[str, object],
        theirs: Mapping[str, Mapping[str, object]],
        judges: Sequence[Judge],
        *,
        kernel: str,
        device: str = "cpu",
        name: str = "reference",
    ) -> None:
        """Judge named fields (a container's, a config's) over the union of both sides."""
        if copied := [name for name, other in theirs.items() if other is ours]:
            raise UsageProblem(f"the subject's fields are those that {copied[0]} answered with")
        result = np.frombuffer(repr(sorted(ours.items())).encode(), np.uint8)
        judged = judge_fields(ours, theirs, judges)
        self.record(judged, kernel=kernel, device=device, name=name, result=result)

    def record(self, judged: Judged, *, kernel: str, device: str, name: str, result: Array) -> None:
        """Keep a judgement that was made elsewhere, after the checks that every case gets: guards and repetition."""
        __tracebackhide__ = True
        state = self._state
        if state.judged_runs > state.run:
            raise UsageProblem("the case has a verdict already: one case, one verdict")
        state.kernel, state.device, state.subject = kernel, device, name
        judged = self._worse(dataclasses.replace(judged, judges=self._live(judged.judges)), result)
        state.judged = judged
        state.judged_runs += 1
        if judged.verdict is not Verdict.PASS:
            raise CaseFailed(judged)

    def _live(self, judges: Sequence[Judge]) -> tuple[Judge, ...]:
        """The judges, not live from the first answer on that the memo gave for them in this process.

        Not only for the case that asked: what fixtures keep of an answer goes into other cases.
        """
        return tuple(
            judge.model_copy(update={"live": judge.live and judge.pin not in self._memo.answered})
            for judge in judges
        )

    def _worse(self, judged: Judged, result: Array) -> Judged:
        """The judgement, unless memory was written that is not the kernel's, or the bits changed between runs."""
        overrun = next((words for buffer in self._state.buffers if (words := buffer.overrun())), None)
        if overrun:
            return _instead(judged, Verdict.FAIL_OOB, f"the kernel {overrun} of the memory that it was given")
        if self._state.runs == 1:
            return judged
        print_now = hashlib.sha256(
            repr((result.dtype, result.shape)).encode() + np.ascontiguousarray(result).tobytes()
        ).digest()
        before, self._state.fingerprint = self._state.fingerprint, self._state.fingerprint or print_now
        if before is not None and before != print_now:
            words = f"run {self._state.run + 1} on the same inputs gave other bits"
            return _instead(judged, Verdict.FAIL_NONDET, f"{words}; {judged.message}".rstrip("; "))
        return judged


def _instead(judged: Judged, verdict: Verdict, message: str) -> Judged:
    return Judged(
        verdict, Side.SUBJECT, message, judged.judges, judged.bound, failed(verdict, message), float("inf")
    )


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> CaseVerdict:
    """Judges the result of the case: `verdict(subject, opinions, kernel=…, bound=…)`."""
    state = request.node.stash.get(STATE, None)
    if state is None:
        raise UsageProblem("the fixture `verdict` belongs to a case: mark the test with cases(FAMILY)")
    return CaseVerdict(state, request.config.stash[MEMO])


@pytest.fixture
def guarded(request: pytest.FixtureRequest) -> Iterator[Guarded]:
    """Poisoned memory between guard zones."""
    state = request.node.stash.get(STATE, None) or State()
    yield Guarded(state)
    overrun = next((words for buffer in state.buffers if (words := buffer.overrun())), None)
    if overrun and (state.judged is None or state.judged.verdict is Verdict.PASS):
        nothing = judge(np.zeros(0), (), BIT_EXACT)
        raise CaseFailed(_instead(nothing, Verdict.FAIL_OOB, f"the kernel {overrun}"))


@pytest.fixture
def skip_case(request: pytest.FixtureRequest) -> Callable[..., NoReturn]:
    """Skip the running test: `skip_case(row=…, kind=…, reason=…, owner=…)`, by the rules of docs/skips.md."""

    def skip(**values: Any) -> NoReturn:
        __tracebackhide__ = True
        wanted = skipping(values)
        case = case_of(request.node)
        if case is not None and (problem := skip_misfit(wanted, case)):
            raise UsageProblem(problem)
        raise CaseSkipped(wanted)

    return skip
