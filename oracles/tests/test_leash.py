"""Nothing that the harness starts outlives it, and nothing that a process leaves behind outlives that process's leash."""

import os
import signal
import subprocess
import sys
import time

import pytest

from harness.errors import Unavailable
from oracles import leash, pip
from oracles.tests.processes import gone, heeds_signals, wait_for
from oracles.tests.test_worker_process import WORKERS

WRITE_PID = "import os, pathlib, time; pathlib.Path({path!r}).write_text(str(os.getpid())); time.sleep(600)"


def parent_of(code, tmp_path):
    """A process that runs `code`, and the id of the process that ran `CHILD` in it."""
    path = tmp_path / "pid"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import sys\nFORK = {str(tmp_path / 'fork')!r}\nCHILD = {WRITE_PID.format(path=str(path))!r}\n{code}",
        ],
        stderr=subprocess.DEVNULL,
        preexec_fn=heeds_signals,
    )
    wait_for(lambda: path.exists() and path.read_text())
    return process, int(path.read_text())


RUN_STEP = "from oracles import pip\npip.run_step([sys.executable, '-c', CHILD], what='it', tell=print)"
LEAVES_ITS_GROUP = """
from oracles import leash
code = 'import subprocess, sys; subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)'
leash.start([sys.executable, '-c', code, CHILD], env=None)
import time; time.sleep(600)
"""
FORKS_ITSELF = """
import os, time
from oracles import leash
leash.start([sys.executable, '-c', 'import time; time.sleep(600)'], env=None)
fork = os.fork()
if fork == 0:
    time.sleep(600)
open(FORK, 'w').write(str(fork))
leash.start([sys.executable, '-c', CHILD], env=None)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_download_ends_with_an_installer_that_is_killed(tmp_path, number):
    parent, child = parent_of(RUN_STEP, tmp_path)
    parent.send_signal(number)
    parent.wait()
    wait_for(lambda: gone(child))


def test_an_interrupt_ends_the_download_too(tmp_path):
    parent, child = parent_of(RUN_STEP, tmp_path)
    parent.send_signal(signal.SIGINT)
    parent.wait(20)
    assert gone(child)


def test_a_grandchild_in_a_session_of_its_own_ends_with_a_harness_that_is_killed(tmp_path):
    parent, child = parent_of(LEAVES_ITS_GROUP, tmp_path)
    parent.kill()
    parent.wait()
    wait_for(lambda: gone(child))


def test_a_fork_of_the_harness_does_not_keep_the_guardian_waiting(tmp_path):
    parent, child = parent_of(FORKS_ITSELF, tmp_path)
    fork = int((tmp_path / "fork").read_text())
    parent.kill()
    parent.wait()
    wait_for(lambda: gone(child))
    assert not gone(fork)
    os.kill(fork, signal.SIGKILL)


def test_a_guardian_that_was_killed_is_replaced_and_told_what_is_held(tmp_path):
    code = """
from oracles import leash
first = leash.start([sys.executable, '-c', CHILD], env=None)
leash._GUARDIAN._process.kill()
leash._GUARDIAN._process.wait()
second = leash.start([sys.executable, '-c', 'import time; time.sleep(600)'], env=None)
import time; time.sleep(600)
"""
    parent, child = parent_of(code, tmp_path)
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    wait_for(lambda: gone(child))


def test_the_harness_inside_a_subject_keeps_both_tokens(monkeypatch):
    monkeypatch.setenv(leash.VARIABLE, "outer")
    held = leash.start(
        [sys.executable, "-c", f"import os; print(os.environ[{leash.VARIABLE!r}])"],
        env=None,
        stdout=subprocess.PIPE,
        text=True,
    )
    with held.process as process:
        assert process.stdout.read().strip() == f"outer,{held.token}"
    held.release()


def test_a_step_that_cannot_be_started_leaves_nothing_held():
    before = dict(leash._GUARDIAN._held)
    with pytest.raises(OSError, match="No such file"):
        leash.start(["/nonexistent"], env=None)
    assert leash._GUARDIAN._held == before


def test_a_step_that_fails_says_why():
    with pytest.raises(Unavailable, match=r"it failed \(status 3\): no network"):
        pip.run_step(
            [sys.executable, "-c", "print('no network'); raise SystemExit(3)"], what="it", tell=print
        )


def test_a_worker_in_a_hung_call_dies_with_its_harness(tmp_path):
    code = f"""
from oracles.worker_process import Worker
worker = Worker.start([sys.executable, {str(WORKERS / "misbehave.py")!r}], name="w", timeout=60)
import pathlib
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(worker.pid))
worker.call("hang", timeout=600)
"""
    parent, child = parent_of(code, tmp_path)
    parent.kill()
    parent.wait()
    wait_for(lambda: gone(child))
