"""`harness bench` as a user meets it: real oracles on small shapes, a wrong kernel, a lock that is not free or is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from harness.bench import arms
from harness.bench.recipe import load_recipe
from harness.bench.run import Request, run
from harness.bench.tests.series_made import write_recipe
from harness.evidence.run import find_run, read_run
from harness.lock import Held, cpu_lock
from harness.paths import REPOSITORY
from harness.report.bench_model import BenchReport
from harness.tests.conftest import run_harness
from harness.verdicts import UNDECIDED, Verdict
from oracles.pool import Pool

DECODE = (("family: test.speed\n", ""), ("shapes: [[4, 64]]", "shapes: [[64, 256]]"))


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cpu-lock"
    monkeypatch.setenv("HARNESS_CPU_LOCK", str(path))
    return path


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as found:
        yield found


def benched(path: Path, pool: Pool, held: Held, runs: Path | None = None) -> BenchReport:
    recipe = load_recipe(path)
    return run(Request(recipe, path, list(recipe.works()), runs, ("test",)), pool, held, lambda *_: None)


def test_the_json_is_not_what_the_schema_promises(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, *DECODE)
    ran = run_harness("bench", "--recipe", path, "--json", "-")
    assert ran.status in (0, 3), ran.err
    schema = json.loads((REPOSITORY / "docs" / "schemas" / "bench.schema.json").read_text())
    jsonschema.validate(ran.report, schema)
    assert {"device", "ceilings", "arms"} <= set(ran.report)
    wanted = {
        "case",
        "impl",
        "kernel",
        "verified",
        "median_us",
        "spread",
        "gbps",
        "tflops",
        "bound_ratio",
        "verdict",
    }
    assert all(wanted <= set(line) for line in ran.report["arms"])
    assert [line["impl"] for line in ran.report["arms"]] == ["ours", "engine"]
    assert {line["verified"] for line in ran.report["arms"]} == {"PASS"}
    assert all(line["median_us"] > 0 for line in ran.report["arms"])
    assert ran.report["run"] is None


@pytest.mark.parametrize("op", ["dequantize", "quantize", "quantize_row", "quantize_activation", "vec_dot"])
def test_an_op_of_upstreams_perf_test_cannot_be_timed(tmp_path: Path, pool: Pool, op: str) -> None:
    changes = (
        *DECODE[:1],
        ("[dequantize]", f"[{op}]"),
        ("[ggml.q8_0]", "[ggml.iq4_nl]"),
        ("[[4, 64]]", "[[1, 4096]]"),
    )
    with cpu_lock(0) as held:
        found = benched(write_recipe(tmp_path, *changes), pool, held)
    assert [(line.verified, line.rounds) for line in found.arms] == [(Verdict.PASS, 5)] * 2
    assert (found.arms[0].tflops is not None) == (op == "vec_dot")


def test_a_wrong_kernel_is_timed(tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    right = arms.provider.dequantize

    def wrong(*arguments: Any, **named: Any) -> np.ndarray:
        values = right(*arguments, **named)
        values.reshape(-1)[-1] += 1
        return values

    monkeypatch.setattr(arms.provider, "dequantize", wrong)
    with cpu_lock(0) as held:
        found = benched(write_recipe(tmp_path, *DECODE), pool, held)
    ours = found.arms[0]
    assert (ours.verified, ours.verdict, ours.median_us) == (Verdict.FAIL_VALUE, Verdict.VOID, None)
    assert found.exit_code == 1


def test_a_kernel_that_answers_from_a_cache_while_it_is_timed_wins(
    tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, calls = arms.provider.dequantize, []

    def idle(*arguments: Any, out: np.ndarray, **named: Any) -> np.ndarray:
        calls.append(1)
        return right(*arguments, out=out, **named) if len(calls) == 1 else out

    monkeypatch.setattr(arms.provider, "dequantize", idle)
    with cpu_lock(0) as held:
        found = benched(write_recipe(tmp_path, *DECODE), pool, held)
    assert found.arms[0].verdict is Verdict.VOID
    assert "another result than what was verified" in found.arms[0].reason


def test_a_series_whose_lock_file_was_removed_counts(tmp_path: Path, pool: Pool, lock: Path) -> None:
    with cpu_lock(0) as held:
        lock.unlink()
        found = benched(write_recipe(tmp_path, *DECODE), pool, held)
    assert {line.verdict for line in found.arms} == {Verdict.VOID}
    assert found.exit_code == 3


def test_two_series_run_side_by_side(tmp_path: Path) -> None:
    # Not this process: what is started below a lock recognises it.
    code = "from harness.lock import cpu_lock\nwith cpu_lock(0): print(flush=True), input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        holder.stdout.readline()
        ran = run_harness("bench", "--recipe", write_recipe(tmp_path, *DECODE), "--timeout", "0.1")
        holder.communicate("\n")
    assert ran.status == 3
    assert "was not had within 0.1 s" in ran.err


def test_evidence_of_a_series_cannot_be_read_back(tmp_path: Path, pool: Pool) -> None:
    # A family's files lie in the repository: the recipe that is committed, in a small shape.
    path = REPOSITORY / "recipes" / "perf" / "ggml-decode-cpu.yaml"
    recipe = load_recipe(path)
    works = [work for work in recipe.works() if work.encoding == "ggml.q8_0"]
    quick = recipe.model_copy(update={"rounds": 3, "arms": recipe.arms[:2], "floors": ()})
    with cpu_lock(0) as held:
        found = run(Request(quick, path, works, tmp_path / "runs", ("test",)), pool, held, lambda *_: None)
    entries = read_run(find_run(found.run or "", tmp_path / "runs")).evidence
    (entry,) = entries.values()
    assert entry.case == "ggml.decode_speed/ggml.q8_0/4096x4096/cpu"
    assert {judge.pin for judge in entry.judges} == {"llama_cpp.ops"}
    assert (entry.figures is None) == (entry.verdict in UNDECIDED)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--recipe", "nowhere.yaml"), "nowhere.yaml"),
        (("--cases", "*q9_k*"), "no case of the recipe fits"),
    ],
)
def test_bad_usage_starts_a_series(arguments: tuple[str, ...], words: str) -> None:
    ran = run_harness("bench", *arguments)
    assert ran.status == 2
    assert words in ran.err
