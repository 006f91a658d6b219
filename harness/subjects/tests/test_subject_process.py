"""A subject's process: what it does on the way costs a case or the start, and nothing of it stays behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.subjects.remote import PythonSubject
from harness.subjects.target import parse_target
from harness.subjects.tests.conftest import RIGHT, decode
from harness.verdicts import Verdict
from oracles.tests.processes import gone, heeds_signals, wait_for
from oracles.worker_process import ProviderError

RIGHT_FUNCTION = f"def dequantize(encoding, data, shape):\n    return {RIGHT}\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_spinning_subject_dies_with_a_harness_that_is_killed(tmp_path, number):
    subject, pids = tmp_path / "hang.py", tmp_path / "pids"
    subject.write_text(
        "import os\n"
        "def spin(encoding, data, shape):\n"
        "    child = os.fork()\n"
        f"    open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "    while True:\n"
        "        pass\n"
    )
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"""if True:
                from harness.subjects.tests.conftest import decode, PythonSubject, parse_target
                decode(PythonSubject(parse_target({f"{subject}:spin"!r})), timeout=300)""",
        ],
        preexec_fn=heeds_signals,
    )
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    parent.send_signal(number)
    parent.wait()
    for pid in pids.read_text().split():
        wait_for(lambda pid=pid: gone(int(pid)))


def test_a_subject_that_leaves_a_child_with_the_pipe_and_dies_is_error_run_at_once(subject, tmp_path):
    source = f"""
        import os, time

        def dequantize(encoding, data, shape):
            if os.fork() == 0:
                os.setsid()
                open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
                time.sleep(600)
            while not os.path.exists({str(tmp_path / "pid")!r}):
                time.sleep(0.01)
            os._exit(5)
    """
    started = time.monotonic()
    with pytest.raises(ProviderError, match="exit status 5") as caught:
        decode(subject(source), timeout=60)
    assert caught.value.verdict is Verdict.ERROR_RUN
    assert time.monotonic() - started < 20
    wait_for(lambda: gone(int((tmp_path / "pid").read_text())))


def test_a_subject_that_reads_its_input_while_it_is_imported_does_not_eat_the_greeting(subject):
    started = subject('import subprocess, sys\nsubprocess.run(["cat"])\nsys.stdin.read()\n' + RIGHT_FUNCTION)
    assert decode(started).values.shape == (2, 4)


def test_a_print_while_a_subject_is_imported_does_not_reach_the_stream(subject):
    started = subject('import os\nprint("HQW1")\nos.write(1, b"HQW1")\n' + RIGHT_FUNCTION)
    assert decode(started).values.shape == (2, 4)


def test_standard_error_without_end_fills_no_disk(subject, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    started = subject("import os\ndef dequantize(*_):\n    while True:\n        os.write(2, b'x' * 65536)\n")
    with pytest.raises(ProviderError) as caught:
        decode(started, timeout=1)
    assert caught.value.verdict is Verdict.TIMEOUT
    assert 0 < len(caught.value.stderr) <= 8 << 10
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("name", ["harness", "oracles", "numpy", "json"])
def test_a_package_of_the_same_name_in_the_current_folder_is_not_taken_for_ours(tmp_path, monkeypatch, name):
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('not this one')\n")
    (tmp_path / "mine.py").write_text("import numpy as np\n" + RIGHT_FUNCTION)
    monkeypatch.chdir(tmp_path)
    for text in ("mine:dequantize", "mine.py:dequantize"):
        started = PythonSubject(parse_target(text))
        assert decode(started).values.shape == (2, 4)
        started.close()


@pytest.mark.parametrize("name", ["numpy.py", "json.py", "harness.py", "base.py"])
def test_a_subject_in_a_file_with_the_name_of_a_module_in_use_is_served(tmp_path, name):
    file = Path(tmp_path / name)
    file.write_text("def dequantize(encoding, data, shape):\n    return data.view('<f4').reshape(shape)\n")
    started = PythonSubject(parse_target(f"{file}:dequantize"))
    assert decode(started, repeat=2).values.shape == (2, 4)
    started.close()
