"""`harness compare`, without the terminal: open, recognize, compare, and say everything in one report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness import environment
from harness.containers.checkpoint import Checkpoint, TensorInfo
from harness.errors import HarnessError
from harness.ladder.judge import Judge
from harness.ladder.recognize import Recognized, recognize
from harness.ladder.reproduce import smallest_reproducer
from harness.ladder.tensors import TensorVerdict, compare_tensors, select
from harness.report import compare_model as model
from harness.subjects.base import Kernel, Subject
from harness.verdicts import Side, Verdict, exit_code, standing, worst
from oracles.worker_process import ProviderError

STDERR_KEPT = 20
"""Tensors that keep what the subject or the oracle wrote to stderr: 8 KiB each, so that a report stays small."""


@dataclass(frozen=True)
class Options:
    """What was asked for. `seed` None takes it from the checkpoint's digest, so that a run can be repeated."""

    level: str
    tensors: str | None
    seed: int | None
    repro: Path | None


@dataclass
class _Tally:
    """The verdicts of one encoding."""

    tensors: int = 0
    passed: int = 0
    compared: int = 0
    elements: int = 0
    differing: int = 0
    max_abs: float = 0.0
    max_ulp: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)
    rows: tuple[str, ...] = ()
    judges: set[str] = field(default_factory=set)


Progress = Callable[[str, int, int], None]
"""Called with (tensor, weights done, weights in all)."""


def run(
    checkpoint: Checkpoint,
    subject: Subject,
    judges: Sequence[Judge],
    options: Options,
    progress: Progress,
) -> model.CompareReport:
    """Climb the ladder up to the level asked for. Raises only what stops the whole run, never a tensor's fault."""
    start = time.perf_counter()
    timings: dict[str, Any] = {}
    digest = checkpoint.sha256()
    timings["sha256_s"] = time.perf_counter() - start
    seed = options.seed if options.seed is not None else int(digest[:8], 16)
    verdicts: list[tuple[Verdict, Side]] = []

    chosen = select(checkpoint, options.tensors)
    began = time.perf_counter()
    recognized = recognize(checkpoint, judges)
    timings["recognize_s"] = time.perf_counter() - began
    timings["recognize_oracles_s"] = dict(recognized.seconds)
    verdicts.append((recognized.verdict, recognized.side))
    levels = model.Levels(recognize=_recognize_level(recognized))
    first = _container_divergence(recognized)

    state = _TensorRun(checkpoint, subject, judges, options, seed, digest)
    if options.level == "tensors":
        began = time.perf_counter()
        state.climb(chosen, progress)
        timings["tensors_s"] = time.perf_counter() - began
        timings["decode_s"] = dict(state.seconds())
        verdicts += [(found.outcome.verdict, found.outcome.side) for found in state.found]
        if not state.found:
            verdicts.append((Verdict.NOT_RUN, Side.SUBJECT))
        levels = levels.model_copy(update={"tensors": state.level()})
        first = first or state.first
    timings["total_s"] = time.perf_counter() - start
    return model.CompareReport(
        verdict=worst(standing(*found) for found in verdicts),
        exit_code=exit_code(verdicts),
        checkpoint=_checkpoint_info(checkpoint, digest),
        subject=model.SubjectInfo(name=subject.name, version=subject.version),
        oracle=_oracle_info(judges),
        level=options.level,
        seed=seed,
        levels=levels,
        first_divergence=first,
        rows=state.rows(recognized),
        environment=environment.describe(),
        kernels_engaged=state.kernels(),
        notes=state.notes,
        timings=timings,
        peak_rss=environment.peak_rss(),
    )


class _TensorRun:
    """The rung *tensors* with its tallies."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        subject: Subject,
        judges: Sequence[Judge],
        options: Options,
        seed: int,
        digest: str,
    ) -> None:
        self._checkpoint = checkpoint
        self._subject = subject
        self._judges = judges
        self._options = options
        self._seed = seed
        self._digest = digest
        self._tallies: dict[str, _Tally] = {}
        self._kernels: Counter[tuple[str, Kernel]] = Counter()
        self._results: list[model.TensorResult] = []
        self.found: list[TensorVerdict] = []
        self._first: model.Divergence | None = None
        self._first_of_oracles: model.Divergence | None = None
        self.notes: list[str] = []

    def climb(self, chosen: Sequence[TensorInfo], progress: Progress) -> None:
        total = sum(int(np.prod(tensor.shape, dtype=np.int64)) for tensor in chosen)
        done = 0
        verdicts = compare_tensors(
            self._checkpoint, chosen, self._subject, self._judges, seed=self._seed, on_difference=self._keep
        )
        for found in verdicts:
            done += found.elements
            progress(found.tensor.name, done, total)
            self.found.append(found)
            self._count(found)

    def _count(self, found: TensorVerdict) -> None:
        outcome, tensor = found.outcome, found.tensor
        tally = self._tallies.setdefault(tensor.encoding or tensor.type_name, _Tally())
        tally.tensors += 1
        tally.passed += outcome.verdict is Verdict.PASS
        tally.elements += found.elements
        tally.verdicts.append(standing(outcome.verdict, outcome.side))
        tally.judges |= set(outcome.judges)
        tally.seconds.update(outcome.seconds)
        tally.rows = found.unit.rows if found.unit else ()
        if outcome.comparison is not None:
            tally.compared += 1
            tally.differing += outcome.comparison.differing
            tally.max_abs = max(tally.max_abs, outcome.comparison.max_abs)
            tally.max_ulp = max(tally.max_ulp, outcome.comparison.max_ulp)
        if outcome.kernel is not None:
            self._kernels[(tensor.encoding or "", outcome.kernel)] += 2 if found.repeated else 1

    def _keep(self, found: TensorVerdict) -> None:
        """Record a tensor that did not pass, while the subject's values are still there."""
        outcome, tensor = found.outcome, found.tensor
        divergence = self._divergence(found)
        if outcome.side is Side.SUBJECT and self._first is None:
            self._first = divergence or _without_values(found)
        elif self._first_of_oracles is None:
            self._first_of_oracles = divergence
        self._results.append(
            model.TensorResult(
                name=tensor.name,
                encoding=tensor.encoding or tensor.type_name,
                shape=list(tensor.shape),
                verdict=outcome.verdict,
                side=outcome.side,
                elements=found.elements,
                diverged=outcome.comparison.diverged if outcome.comparison else 0,
                max_abs=outcome.comparison.max_abs if outcome.comparison else 0.0,
                max_ulp=outcome.comparison.max_ulp if outcome.comparison else 0,
                message=outcome.message,
                stderr=outcome.stderr if len(self._results) < STDERR_KEPT else "",
                divergence=divergence,
            )
        )

    def _divergence(self, found: TensorVerdict) -> model.Divergence | None:
        comparison = found.outcome.comparison
        if comparison is None or comparison.worst is None:
            return None
        at = comparison.worst
        first = self._first is None and found.outcome.side is Side.SUBJECT
        script = self._reproducer(found) if self._options.repro and first else None
        return model.Divergence(
            level="tensors",
            name=found.tensor.name,
            row=at.place.row,
            block=at.place.block,
            lane=at.place.lane,
            column=at.place.column,
            subject=at.subject,
            oracle=at.oracle,
            subject_bits=at.subject_bits,
            oracle_bits=at.oracle_bits,
            ulp=at.ulp,
            bound=at.bound,
            smallest_passing_bound=comparison.smallest_passing_bound,
            diagnosis=found.outcome.diagnosis,
            reproducer=str(script) if script else None,
        )

    def _reproducer(self, found: TensorVerdict) -> Path | None:
        assert self._options.repro is not None
        try:
            return smallest_reproducer(
                self._options.repro,
                found,
                self._checkpoint.little_endian_bytes(found.tensor.name),
                self._subject,
                self._judges[0],
                checkpoint_sha256=self._digest,
                seed=self._seed,
            )
        except (ProviderError, HarnessError) as error:
            self.notes.append(f"no reproducer: {error}")
            return None

    @property
    def first(self) -> model.Divergence | None:
        """The first culprit: a tensor that the subject got wrong before one on which the oracles differ."""
        return self._first or self._first_of_oracles

    def seconds(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for tally in self._tallies.values():
            total.update(tally.seconds)
        return total

    def level(self) -> model.TensorsLevel:
        tallies = self._tallies.items()
        checked = [found for found in self.found if found.outcome.comparison is not None]
        return model.TensorsLevel(
            verdict=worst(standing(found.outcome.verdict, found.outcome.side) for found in self.found),
            checked=len(checked),
            diverged=sum(found.outcome.verdict is not Verdict.PASS for found in checked),
            bit_exact=bool(self.found) and all(_exact(tally) for _, tally in tallies),
            max_abs=max((tally.max_abs for _, tally in tallies), default=0.0),
            max_ulp=max((tally.max_ulp for _, tally in tallies), default=0),
            elements=sum(found.elements for found in checked),
            repeated=sum(found.repeated for found in checked),
            by_encoding=[
                model.EncodingResult(
                    encoding=encoding,
                    verdict=worst(tally.verdicts),
                    tensors=tally.tensors,
                    passed=tally.passed,
                    compared=tally.compared,
                    elements=tally.elements,
                    bit_exact=_exact(tally),
                    max_abs=tally.max_abs,
                    max_ulp=tally.max_ulp,
                    judges=[judge.name for judge in self._judges if judge.name in tally.judges],
                    seconds=dict(tally.seconds),
                )
                for encoding, tally in sorted(tallies, key=lambda item: -item[1].elements)
            ],
            not_passed=self._results,
        )

    def rows(self, recognized: Recognized) -> list[model.RowResult]:
        """The rows of the coverage matrix that this run says something about."""
        found = []
        for tally in self._tallies.values():
            for row in tally.rows:
                found.append(
                    model.RowResult(
                        id=row, dimension="Recognize", verdict=recognized.verdict, tensors=tally.tensors
                    )
                )
                found.append(
                    model.RowResult(
                        id=row, dimension="Materialize", verdict=worst(tally.verdicts), tensors=tally.tensors
                    )
                )
        return found

    def kernels(self) -> list[model.KernelEngaged]:
        return [
            model.KernelEngaged(
                op="dequantize", encoding=encoding, backend=kernel.backend, kernel=kernel.name, calls=calls
            )
            for (encoding, kernel), calls in sorted(self._kernels.items(), key=lambda item: item[0][0])
        ]


def _without_values(found: TensorVerdict) -> model.Divergence | None:
    """A tensor on which the subject failed before its values could be compared."""
    if found.outcome.verdict is Verdict.NOT_RUN:
        return None
    return model.Divergence(
        level="tensors",
        name=found.tensor.name,
        subject=None,
        oracle=None,
        bound=0.0,
        smallest_passing_bound=float("inf"),
        diagnosis=f"{found.outcome.verdict}: {found.outcome.message}",
    )


def _exact(tally: _Tally) -> bool:
    return tally.passed == tally.tensors and tally.differing == 0


def _recognize_level(found: Recognized) -> model.RecognizeLevel:
    return model.RecognizeLevel(
        verdict=found.verdict,
        checked=found.checked,
        diverged=len({difference.name for difference in found.differences}),
        messages=[*found.messages, *map(str, found.differences)],
    )


def _container_divergence(found: Recognized) -> model.Divergence | None:
    if not found.differences:
        return None
    first = found.differences[0]
    return model.Divergence(
        level="recognize",
        name=f"{first.name}.{first.field}",
        subject=first.ours,
        oracle=first.theirs,
        bound=0.0,
        smallest_passing_bound=float("inf"),
    )


def _checkpoint_info(checkpoint: Checkpoint, digest: str) -> model.CheckpointInfo:
    encodings = Counter(tensor.encoding or tensor.type_name for tensor in checkpoint.tensors)
    return model.CheckpointInfo(
        path=str(checkpoint.path),
        sha256=digest,
        container=f"{checkpoint.container} v{checkpoint.version}",
        architecture=checkpoint.architecture,
        tensors=len(checkpoint.tensors),
        encodings=dict(encodings.most_common()),
        bytes=sum(part.size for part in checkpoint.parts),
    )


def _oracle_info(judges: Sequence[Judge]) -> model.OracleInfo:
    first, *others = judges
    return model.OracleInfo(
        name=first.name,
        version=first.version,
        pin=first.pin,
        second_opinions=[
            {"name": judge.name, "version": judge.version, "pin": judge.pin} for judge in others
        ],
    )
