"""Arms that say what they took, so that a series can be judged without a clock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.bench.inputs import Inputs, inputs_of
from harness.bench.judge import reports
from harness.bench.recipe import Recipe, Work, load_recipe
from harness.bench.series import AGAIN, Measured, Samples
from harness.bench.verify import Verified
from harness.evidence.record import Judge
from harness.report.bench_model import ArmReport, Ceilings
from harness.verdicts import Verdict

WORK = Work("dequantize", "ggml.q8_0", (4, 64))
CEILINGS = Ceilings(copy_gbps=20.0, counter_ghz=2.5)
QUIET = (0.2, 1.0)

RECIPE = """\
schema: harness-bench-recipe/1
title: a test
backend: cpu
threads: 1
seed: 1
warmup: 1
rounds: 5
seconds_per_arm: 10
noise_limit: 0.1
family: test.speed
arms:
  - {name: ours, provider: reference}
  - {name: engine, provider: llama_cpp.ops}
oracle: engine
claims: ours
series:
  - {ops: [dequantize], encodings: [ggml.q8_0], shapes: [[4, 64]]}
"""


def write_recipe(folder: Path, *changes: tuple[str, str], more: str = "") -> Path:
    """The recipe above with replacements, in a file."""
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "recipe.yaml"
    path.write_text(text + more)
    return path


def recipe(folder: Path, *changes: tuple[str, str], more: str = "") -> Recipe:
    return load_recipe(write_recipe(folder, *changes, more=more))


class Player:
    """An arm that is never run."""

    kernel = "a kernel"
    judge: Judge | None = None

    def produce(self) -> Any:
        raise AssertionError("nothing is produced here")

    time = produce


def inputs() -> Inputs:
    return inputs_of(WORK, 1)


def judged(
    of: Recipe,
    ours: Sequence[float],
    engine: Sequence[float] = (1.0, 1.01, 0.99, 1.0, 1.0),
    again: Sequence[float] = (1.0, 1.0, 1.01, 0.99, 1.0),
    *,
    lost: str | None = None,
    load: tuple[float | None, float | None] = QUIET,
    verdict: Verdict = Verdict.PASS,
    fault: str | None = None,
) -> dict[str, ArmReport]:
    """What a series of these seconds comes to: arm -> its line."""
    arms = {
        "ours": Samples(list(ours), fault),
        "engine": Samples(list(engine)),
        AGAIN: Samples(list(again)),
    }
    verified = {"ours": Verified(verdict, 256), "engine": Verified(Verdict.PASS, 256)}
    players = {"ours": Player(), "engine": Player()}
    lines = reports(of, WORK, inputs(), players, verified, Measured(arms, lost, load), CEILINGS)
    return {line.impl: line for line in lines}
