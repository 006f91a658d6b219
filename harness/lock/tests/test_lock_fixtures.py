"""The fixtures give a case the lock that it needs, and say so when it was lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from harness.lock.tests.processes import HARNESS, LIMIT, Processes

CONFTEST = """
import pytest
from harness.lock.fixtures import gpu_correctness, gpu_timed

@pytest.fixture(scope="session")
def gpu_uuid_source():
    return lambda: ["GPU-a"]

@pytest.fixture(scope="session")
def gpu_lock_timeout():
    return {timeout}
"""


def run_cases(
    folder: Path, cases: str, *, before: Sequence[str] = (), workers: int = 0, timeout: float = 10.0
) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.format(timeout=timeout))
    (folder / "test_cases.py").write_text(cases)
    pytest_itself = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        str(workers),
        str(folder),
    ]
    return subprocess.run(
        [*before, *pytest_itself],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
    )


def test_a_case_runs_without_its_lock(lock: Path, tmp_path: Path) -> None:
    cases = f"""
import subprocess
def free(path, *options):
    return subprocess.run(["flock", "-n", *options, path, "true"]).returncode == 0
def test_shared(gpu_correctness):
    assert gpu_correctness.devices == ("GPU-a",)
    assert not free("{lock}") and free("{lock}", "-s") and not free("{lock}.GPU-a")
def test_exclusive(gpu_timed):
    assert gpu_timed.check() is None
    assert not free("{lock}", "-s")
def test_neither():
    assert free("{lock}")
"""
    done = run_cases(tmp_path, cases)
    assert "3 passed" in done.stdout, done.stdout


def test_a_case_that_lost_its_lock_passes(lock: Path, tmp_path: Path) -> None:
    done = run_cases(tmp_path, f"import os\ndef test_it(gpu_timed):\n    os.unlink('{lock}')\n")
    assert done.returncode == 1
    assert "Unavailable: the GPU lock was lost while test_cases.py::test_it ran" in done.stdout


def test_capturing_hides_who_a_case_waits_for(lock: Path, tmp_path: Path, processes: Processes) -> None:
    holder = processes.holder("timed")
    done = run_cases(tmp_path, "def test_it(gpu_correctness):\n    pass\n", timeout=0.5)
    assert done.returncode == 1
    assert (
        f"waiting for the GPU lock since 0 s: {lock} is held exclusively by pid {holder.pid}" in done.stderr
    )
    assert "not had within 0.5 s" in done.stdout


def test_workers_below_one_lock_wait_for_it_or_measure_side_by_side(lock: Path, tmp_path: Path) -> None:
    cases = f"""
import time, pytest
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_it(gpu_timed, number):
    begun = time.time()
    time.sleep(0.1)
    with open("{tmp_path}/spans", "a") as file:
        file.write(f"{{begun}} {{time.time()}}\\n")
"""
    done = run_cases(tmp_path, cases, before=[*HARNESS, "lock", "--"], workers=2)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    spans = sorted(tuple(map(float, line.split())) for line in (tmp_path / "spans").read_text().splitlines())
    assert len(spans) == 4
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
