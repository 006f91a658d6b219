"""Oracles: known answers decide what is offered, and the worker's surroundings are the pin's alone."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from harness.errors import Unavailable, UsageProblem
from harness.paths import REPOSITORY
from harness.verdicts import Verdict
from oracles.pool import Pool, ProviderError, Unsupported
from oracles.tests.conftest import PINS

Q8_0 = np.frombuffer(bytes.fromhex("0038") + bytes(range(32)), np.uint8)


def test_an_encoding_that_fails_its_known_answer_is_not_offered_and_the_others_are(fixture_pool):
    oracle = fixture_pool.get("half_right")
    assert not oracle.supports("dequantize", "ggml.q4_0")
    assert oracle.supports("dequantize", "ggml.q8_0")
    assert oracle.supports("dequantize", "ggml.f32")
    answer = oracle.dequantize("ggml.q8_0", Q8_0, (1, 32))
    assert answer.arrays["values"].tolist() == [[0.5 * q for q in range(32)]]


def test_a_failed_known_answer_names_op_encoding_got_and_wanted(fixture_pool):
    oracle = fixture_pool.get("half_right")
    with pytest.raises(Unavailable) as caught:
        oracle.dequantize("ggml.q4_0", np.zeros(18, np.uint8), (32,))
    words = str(caught.value)
    assert "dequantize of ggml.q4_0" in words
    assert "got element 0 = 0.5" in words
    assert "wanted -1.25" in words
    assert words.endswith(str(oracle.why_not("dequantize", "ggml.q4_0")).split(": ", 1)[1])


def test_an_encoding_that_the_provider_lacks_is_unsupported(fixture_pool):
    oracle = fixture_pool.get("half_right")
    assert oracle.why_not("dequantize", "ggml.q4_k") == "half_right 1.0.0 has no dequantize for ggml.q4_k"
    with pytest.raises(Unsupported):
        oracle.dequantize("ggml.q4_k", np.zeros(144, np.uint8), (256,))


def test_checks_that_failed_are_not_remembered_as_passed(this_interpreter):
    for _ in range(2):
        with Pool(folder=PINS, ensure=this_interpreter) as pool:
            assert not pool.get("half_right").supports("dequantize", "ggml.q4_0")


def test_checks_that_passed_are_remembered_until_an_answer_changes(this_interpreter, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr("oracles.known.check", lambda worker, answers: calls.append(1) or ())
    folder = tmp_path / "known"
    (folder / "ggml" / "f32").mkdir(parents=True)
    answer = "- {name: one, data: 0000803f, shape: [1], values: [1]}\n"
    for text in (answer, answer, answer + "- {name: two, data: '00000040', shape: [1], values: [2]}\n"):
        (folder / "ggml" / "f32" / "known.yaml").write_text(text)
        with Pool(folder=PINS, ensure=this_interpreter, known_folder=folder) as pool:
            assert pool.get("half_right").has_known_answers("dequantize", "ggml.f32")
    assert len(calls) == 2


def test_an_oracle_that_died_answers_the_next_call(fixture_pool):
    oracle = fixture_pool.get("half_right")
    os.kill(oracle.worker.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert oracle.dequantize("ggml.q8_0", Q8_0, (32,)).arrays["values"][31] == 15.5


def test_two_oracles_run_at_a_time_and_end_with_the_pool(this_interpreter, tmp_path):
    import shutil

    folder = tmp_path / "pins"
    shutil.copytree(PINS / "half_right", folder / "one")
    shutil.copytree(PINS / "half_right", folder / "two")
    for name in ("one", "two"):
        for file, old in (("pin.yaml", "name: half_right"), ("worker.py", "parents[3]")):
            path = folder / name / file
            new = f"name: {name}" if file == "pin.yaml" else "parents[0]"
            path.write_text(path.read_text().replace(old, new))
        for shared in ("serve.py", "wire.py"):
            shutil.copy(REPOSITORY / "oracles" / shared, folder / name / shared)
    with Pool(folder=folder, ensure=this_interpreter) as pool:
        first, second = pool.get("one"), pool.get("two")
        pids = {first.worker.pid, second.worker.pid}
        assert len(pids) == 2
        assert pool.get("one") is first
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_environment_of_a_worker_is_scrubbed_and_single_threaded(fixture_pool, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("MY_TOKEN", "secret")
    seen = fixture_pool.get("half_right").call("environ").result
    assert seen["OMP_NUM_THREADS"] == "1"
    assert seen["HALF_RIGHT"] == "set by pin.yaml"
    assert seen["PATH"] == os.environ["PATH"]
    assert not {"PYTHONPATH", "MY_TOKEN"} & set(seen)


def test_an_answer_of_the_wrong_length_of_bytes_is_an_error_of_one_case(fixture_pool):
    oracle = fixture_pool.get("half_right")
    with pytest.raises(ProviderError) as caught:
        oracle.dequantize("ggml.q8_0", Q8_0[:-1], (32,))
    assert caught.value.verdict is Verdict.ERROR_RUN
    assert oracle.dequantize("ggml.q8_0", Q8_0, (32,)).arrays["values"].shape == (32,)


def test_an_oracle_that_does_not_start_says_why(fixture_pool):
    with pytest.raises(Unavailable, match=r"libgomp\.so\.1: cannot open shared object file"):
        fixture_pool.get("no_library")


def test_a_name_that_no_pin_has_is_a_usage_problem_with_the_near_one(fixture_pool):
    with pytest.raises(UsageProblem, match="did you mean half_right"):
        fixture_pool.get("half_rihgt")


def test_evidence_gets_package_version_wheel_worker_and_answers(fixture_pool):
    pin = fixture_pool.get("half_right").pin
    assert (pin["package"], pin["version"], pin["wheel_sha256"]) == ("half-right", "1.0.0", "a" * 64)
    assert len(pin["worker_sha256"]) == len(pin["known_answers_sha256"]) == 64
    assert not [value for value in pin.values() if isinstance(value, Path)]
