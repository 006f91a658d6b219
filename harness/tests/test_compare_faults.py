"""A decoder with a known fault, through the command line: exit 1, the place named, the reproducer runs by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.containers.gguf_write import TensorData, write_gguf
from harness.tests.conftest import Ran, run_harness

WRONG = Path(__file__).parent / "wrong_decoders"


def compare(checkpoint: Path, subject: str, *more: object) -> Ran:
    return run_harness(
        "compare",
        "--checkpoint",
        checkpoint,
        "--oracle",
        "llama_cpp",
        "--subject",
        subject,
        "--json",
        "-",
        *more,
    )


def run_reproducer(folder: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder / "repro.py")],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("fault", "verdict", "name", "row", "block", "lane", "words", "reduced"),
    [
        (
            "swapped_nibbles",
            "FAIL_VALUE",
            "blk.0.ffn_up.weight",
            None,
            None,
            None,
            "nibbles are swapped",
            "block",
        ),
        ("neighbour_scale", "FAIL_VALUE", "blk.0.ffn_up.weight", None, None, None, None, "row"),
        ("stale_last_block", "FAIL_NONFINITE", "blk.0.ffn_up.weight", 7, 1, None, "never written", "block"),
        ("one_nan", "FAIL_NONFINITE", "blk.0.ffn_up.weight", 2, 1, 5, "lane 5", "tensor"),
    ],
)
def test_the_fault_is_found_named_and_reproduced(
    small_checkpoint, tmp_path, fault, verdict, name, row, block, lane, words, reduced
):
    ran = compare(
        small_checkpoint,
        f"{WRONG / fault}.py:dequantize",
        "--tensors",
        "*.weight",
        "--repro",
        tmp_path / "repro",
    )
    assert ran.status == 1
    first = ran.report["first_divergence"]
    assert (ran.report["verdict"], first["name"]) == (verdict, name)
    for key, wanted in (("row", row), ("block", block), ("lane", lane)):
        assert isinstance(first[key], int)
        assert wanted is None or first[key] == wanted
    if words:
        assert words in first["diagnosis"]
    assert Path(first["reproducer"]) == tmp_path / "repro" / "repro.py"
    again = run_reproducer(tmp_path / "repro", cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "DIFFERS" in again.stdout
    assert f"input of one {reduced}" in again.stdout


def test_all_culprits_are_found_in_the_same_pass(small_checkpoint):
    ran = compare(small_checkpoint, f"{WRONG / 'neighbour_scale'}.py:dequantize", "--tensors", "blk.*")
    level = ran.report["levels"]["tensors"]
    assert (level["checked"], level["diverged"]) == (4, 4)
    assert [result["verdict"] for result in level["not_passed"]] == ["FAIL_VALUE"] * 4


def test_a_right_function_passes_and_its_reproducer_is_not_written(small_checkpoint, tmp_path):
    ran = compare(small_checkpoint, "kernels.provider:dequantize", "--repro", tmp_path / "repro")
    assert (ran.status, ran.report["verdict"]) == (0, "PASS")
    assert ran.report["levels"]["tensors"]["bit_exact"] is True
    assert not (tmp_path / "repro").exists()


def test_a_reproducer_says_when_the_fault_is_gone(small_checkpoint, tmp_path):
    subject = tmp_path / "mine.py"
    subject.write_text((WRONG / "swapped_nibbles.py").read_text())
    ran = compare(
        small_checkpoint, f"{subject}:dequantize", "--tensors", "blk.*", "--repro", tmp_path / "repro"
    )
    assert ran.status == 1
    subject.write_text("from kernels.provider import dequantize\n")
    again = run_reproducer(tmp_path / "repro", cwd=tmp_path)
    assert (again.returncode, "agrees" in again.stdout) == (0, True)


def test_a_reproducer_refuses_data_that_was_changed(small_checkpoint, tmp_path):
    compare(small_checkpoint, f"{WRONG / 'one_nan'}.py:dequantize", "--tensors", "blk.*", "--repro", tmp_path)
    archive = tmp_path / "repro.npz"
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    again = run_reproducer(tmp_path, cwd=tmp_path)
    assert again.returncode == 2
    assert "sha256" in again.stderr


def test_one_element_of_134_million_within_the_memory_limit(tmp_path):
    shape = (16384, 8192)
    blocks = shape[0] * shape[1] // 32
    piece = np.random.default_rng(4).integers(0, 256, (blocks // 64, 18), np.uint8)
    piece[:, 0:2] = np.array([0x3400], "<u2").view(np.uint8)
    path = tmp_path / "large.gguf"
    write_gguf(
        path,
        {"general.architecture": "llama"},
        [TensorData("large.weight", 2, shape, lambda: (piece for _ in range(64)))],
    )
    ran = compare(path, f"{WRONG / 'one_of_134_million'}.py:dequantize", "--repro", tmp_path / "repro")
    assert ran.status == 1
    first = ran.report["first_divergence"]
    row, column = divmod(100_000_019, shape[1])
    assert (first["name"], first["row"]) == ("large.weight", row)
    assert (first["block"], first["lane"], first["ulp"]) == (column // 32, column % 32, 1)
    assert ran.report["levels"]["tensors"]["not_passed"][0]["diverged"] == 1
    assert ran.report["peak_rss"] < 3 * 4 * shape[0] * shape[1] + 300e6
    again = run_reproducer(tmp_path / "repro", cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "DIFFERS: 1 of 8192" in again.stdout


@pytest.mark.parametrize(
    ("fault", "verdict", "words"),
    [
        ("bits_that_flip", "FAIL_NONDET", "run again on the same bytes"),
        ("past_the_end", "FAIL_OOB", "past the end"),
    ],
)
def test_races_and_stray_writes_have_their_own_verdicts(small_checkpoint, fault, verdict, words):
    ran = compare(small_checkpoint, f"{WRONG / fault}.py:dequantize", "--tensors", "blk.0.*")
    assert (ran.status, ran.report["verdict"]) == (1, verdict)
    assert words in ran.report["levels"]["tensors"]["not_passed"][0]["message"]


def test_the_result_of_the_call_before_is_recognised(small_checkpoint):
    ran = compare(small_checkpoint, f"{WRONG / 'cached_result'}.py:dequantize", "--tensors", "blk.[01].*")
    assert ran.status == 1
    (result,) = ran.report["levels"]["tensors"]["not_passed"]
    assert (result["name"], result["verdict"]) == ("blk.1.ffn_up.weight", "FAIL_VALUE")
    assert "the call before it came back" in result["divergence"]["diagnosis"]


@pytest.mark.parametrize(
    ("function", "verdict", "words"),
    [
        ("raises", "ERROR_RUN", "no kernel image"),
        ("crashes", "ERROR_RUN", "SIGABRT"),
        ("flattens", "FAIL_SHAPE", "wanted [8, 64]"),
        ("doubles", "FAIL_DTYPE", "float64"),
        ("returns_nothing", "ERROR_RUN", "returned None"),
        ("spoils_its_input", "FAIL_OOB", "changed the bytes of its input"),
    ],
)
def test_a_subject_that_does_not_answer_properly_costs_its_tensor(small_checkpoint, function, verdict, words):
    ran = compare(small_checkpoint, f"{WRONG / 'misbehaving'}.py:{function}", "--tensors", "blk.[01].*")
    assert ran.status == 1
    results = ran.report["levels"]["tensors"]["not_passed"]
    assert [(result["verdict"], result["side"]) for result in results] == [(verdict, "subject")] * 2
    assert words in results[0]["message"]


def test_a_subject_that_prints_is_still_heard(small_checkpoint):
    ran = compare(small_checkpoint, f"{WRONG / 'misbehaving'}.py:prints")
    assert (ran.status, ran.report["verdict"]) == (0, "PASS")


def test_an_oracle_killed_in_mid_run_costs_one_tensor_and_the_run_goes_on(small_checkpoint):
    ran = compare(small_checkpoint, f"{WRONG / 'kills_the_oracle'}.py:dequantize", "--seed", "1")
    assert ran.status == 3
    level = ran.report["levels"]["tensors"]
    (result,) = level["not_passed"]
    assert (result["verdict"], result["side"]) == ("ERROR_RUN", "oracle")
    assert "SIGKILL" in result["message"]
    assert level["checked"] == 4
    assert ran.report["verdict"] == "ERROR_RUN"
