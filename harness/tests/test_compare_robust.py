"""Ways in which a comparison could have passed, hung or lost its word without having compared anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness import demo
from harness.containers.gguf_write import TensorData, write_gguf
from harness.errors import Unavailable
from harness.ladder.tensor import RUN_ELEMENTS, compare_tensor
from harness.subjects.own import OwnKernels
from harness.tests.conftest import HARNESS, quantized_tensor, run_harness
from harness.verdicts import Side, Verdict
from kernels.provider import dequantize
from kernels.units import unit
from oracles.worker_process import Answer


class StubJudge:
    """Decodes with our own reference, and can be told to lack or to fail an encoding."""

    version, pin, ops = "1", {}, {}

    def __init__(self, name: str, supported: bool = True, failures: dict | None = None) -> None:
        self.name = name
        self.failures = failures or {}
        self._supported = supported
        self.calls: list[tuple[int, ...]] = []

    def supports(self, op, encoding):
        return self._supported and (op, encoding) not in self.failures

    def why_not(self, op, encoding):
        return (
            f"{self.name}: the known answers of {encoding} fail" if self.failures else f"{self.name} has none"
        )

    def call(self, op, params, arrays, **options):
        shape = tuple(params["shape"])
        self.calls.append(shape)
        return Answer({}, {"values": dequantize(params["encoding"], arrays["data"], shape)}, 0.0)


def judged(*judges: StubJudge, shape=(4, 32), encoding="ggml.q8_0"):
    found = unit(encoding)
    data = np.zeros(int(np.prod(shape)) // found.block_elems * found.block_bytes, np.uint8)
    return compare_tensor(found, data, shape, OwnKernels(), judges, repeat=1, timeout=60)


def test_the_judge_that_was_asked_for_is_not_replaced_by_the_second_opinion():
    broken = StubJudge("engine", failures={("dequantize", "ggml.q8_0"): "got 2, wanted 1"})
    outcome = judged(broken, StubJudge("formats"))
    assert (outcome.verdict, outcome.side) == (Verdict.NOT_RUN, Side.ORACLE)
    assert "known answers" in outcome.message
    assert judged(StubJudge("engine", supported=False), StubJudge("formats")).verdict is Verdict.NOT_RUN


def test_a_second_opinion_whose_known_answers_fail_is_not_left_out_in_silence():
    broken = StubJudge("formats", failures={("dequantize", "ggml.q8_0"): "got 2, wanted 1"})
    assert judged(StubJudge("engine"), broken).verdict is Verdict.NOT_RUN


def test_an_encoding_that_the_second_opinion_lacks_names_its_only_judge():
    outcome = judged(StubJudge("engine"), StubJudge("formats", supported=False))
    assert (outcome.verdict, outcome.judges) == (Verdict.PASS, ("engine",))


def test_one_long_row_is_judged_in_pieces_like_many_short_ones():
    judge = StubJudge("engine")
    assert judged(judge, shape=(2 * RUN_ELEMENTS + 32,)).verdict is Verdict.PASS
    assert len(judge.calls) == 3
    assert max(np.prod(shape) for shape in judge.calls) <= RUN_ELEMENTS


def test_an_empty_tensor_is_neither_a_pass_nor_a_disagreement():
    outcome = judged(StubJudge("engine"), StubJudge("formats"), shape=(0, 32))
    assert (outcome.verdict, outcome.side) == (Verdict.NOT_RUN, Side.SUBJECT)
    assert judged(StubJudge("engine"), shape=(0, 1 << 62), encoding="ggml.f32").verdict is Verdict.NOT_RUN


def test_a_checkpoint_without_tensors_is_not_a_success(tmp_path):
    write_gguf(tmp_path / "empty.gguf", {"general.architecture": "llama"}, [])
    for level in ("recognize", "tensors"):
        ran = run_harness(
            *("compare", "--checkpoint", tmp_path / "empty.gguf", "--oracle", "llama_cpp"),
            *("--level", level, "--json", "-"),
        )
        assert (ran.status, ran.report["verdict"]) == (3, "NOT_RUN")


def test_a_filter_with_a_typo_is_not_a_success_at_any_level(small_checkpoint):
    ran = run_harness(
        *("compare", "--checkpoint", small_checkpoint, "--oracle", "llama_cpp"),
        *("--level", "recognize", "--tensors", "nope*"),
    )
    assert ran.status == 3


def test_a_tensor_without_dimensions_is_one_number(tmp_path):
    path = tmp_path / "scalar.gguf"
    rest = quantized_tensor("blk.0.weight", "ggml.q4_1", (2, 32), 1)
    write_gguf(path, {"general.architecture": "llama"}, [TensorData("scale", 0, (), np.ones(1, "<f4")), rest])
    ran = run_harness("compare", "--checkpoint", path, "--oracle", "llama_cpp", "--json", "-")
    assert (ran.status, ran.report["levels"]["tensors"]["checked"]) == (0, 2)


def test_a_demo_that_was_damaged_in_the_cache_is_fetched_again_or_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    recipe = demo.load_demo("smollm2")
    folder = tmp_path / "checkpoints" / recipe.sha256[:16]
    folder.mkdir(parents=True)
    with (folder / Path(recipe.member).name).open("wb") as target:
        target.truncate(recipe.bytes)
    with pytest.raises(Unavailable, match="damaged"):
        demo.resolve_checkpoint("demo:smollm2", offline=True, tell=print)


def test_bad_usage_is_told_before_anything_is_fetched(tmp_path):
    for more, words in (
        (("--subject", "missing.py:f"), "there is no file"),
        (("--device", "banana"), "wanted cpu"),
        (("--json", ""), "name of a file"),
        (("--html", "-"), "name of a file"),
        (("--json", tmp_path), "folder"),
    ):
        ran = run_harness(
            *("compare", "--checkpoint", "demo:smollm2", "--oracle", "llama_cpp", "--offline", *more),
            HARNESS_CACHE=str(tmp_path),
        )
        assert (ran.status, words in ran.err) == (2, True), ran.err
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("redirection", "status"), [(">&-", 3), (">/dev/full", 3), ("| head -1 >/dev/null", 141)]
)
def test_output_that_nobody_reads_is_not_told_as_a_difference(redirection, status):
    script = f"'{HARNESS}' rows {redirection}; echo ${{PIPESTATUS[0]}} >&2"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == str(status)
    assert "Traceback" not in done.stderr


def wrong_subject(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return f"{folder / name}"


def reproduced(checkpoint: Path, subject: str, folder: Path) -> Path:
    ran = run_harness(
        *("compare", "--checkpoint", checkpoint, "--oracle", "llama_cpp", "--subject", subject),
        *("--tensors", "blk.0.*", "--repro", folder, "--json", "-"),
    )
    assert ran.status == 1
    return Path(ran.report["first_divergence"]["reproducer"])


def test_a_subject_whose_function_is_called_decode_is_run_again_as_it_was(small_checkpoint, tmp_path):
    subject = wrong_subject(
        tmp_path,
        "named.py",
        "from kernels.provider import dequantize\n\n"
        "def decode(encoding, data, shape):\n    return -dequantize(encoding, data, shape)\n",
    )
    script = reproduced(small_checkpoint, f"{subject}:decode", tmp_path / "repro")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, "run again" in done.stdout) == (1, True), done.stderr


def test_a_subject_that_cannot_be_imported_elsewhere_is_shown_by_its_stored_answer(
    small_checkpoint, tmp_path
):
    subject = wrong_subject(
        tmp_path,
        "helped.py",
        "from kernels.provider import dequantize as right\n\n"
        "def dequantize(encoding, data, shape):\n    return -right(encoding, data, shape)\n",
    )
    script = reproduced(small_checkpoint, f"{subject}:dequantize", tmp_path / "repro")
    Path(subject).write_text("import a_package_that_is_not_here\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, "stored" in done.stdout) == (1, True), done.stderr
