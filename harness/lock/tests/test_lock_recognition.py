"""A process below a lock knows it, does not wait for itself, and does not take a mere open file for a lock."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from harness.errors import Unavailable, UsageProblem
from harness.lock import descriptors, device_path, gpu_lock
from harness.lock.lockfile import open_lock
from harness.lock.paths import turn_path
from harness.lock.tests.processes import HARNESS, LIMIT, Processes, flock_free, harness_lock, run

ASK = (
    "import sys; from harness.lock import gpu_lock\n"
    "with gpu_lock(sys.argv[1], sys.argv[2:], timeout=0) as held: print(held.recognised, held.check())"
)


def ask(kind: str, *devices: str) -> list[str]:
    return [sys.executable, "-c", ASK, kind, *devices]


def test_nested_commands_wait_for_each_other(lock: Path) -> None:
    nested = [*HARNESS, "lock", "--timeout", "0"]
    done = harness_lock("--", *nested, "--", *nested, "--shared", "--device", "GPU-a", "--", "echo", "in")
    assert (done.returncode, done.stdout, done.stderr) == (0, "in\n", "")


@pytest.mark.parametrize("options", [[], ["-o"], ["-F"]])
def test_a_series_below_flock_waits_for_it(lock: Path, options: list[str]) -> None:
    done = run(["flock", *options, str(lock), *ask("timed")])
    assert (done.stdout, done.stderr) == ("True None\n", "")


def test_a_child_without_the_descriptors_waits_for_its_parent(lock: Path) -> None:
    """As below pytest: subprocess and pytest-xdist close every descriptor but three."""
    with gpu_lock("timed"):
        assert run(ask("timed")).stdout == "True None\n"
        through_a_shell = run(["sh", "-c", 'exec 2>&1; "$@"; true', "sh", *ask("correctness", "GPU-a")])
        assert through_a_shell.stdout == "True None\n"


def test_a_child_that_has_the_descriptor_loses_the_lock_with_its_parent(
    lock: Path, processes: Processes
) -> None:
    held = gpu_lock("timed")
    with held as outer:
        child = processes.start(["cat"], pass_fds=outer.pass_fds)
        os.close(outer.pass_fds[0])  # as when this process ended, without unlocking
        assert not flock_free(lock)
    child.communicate(timeout=LIMIT)
    assert flock_free(lock)


def test_a_child_that_runs_as_another_user_waits_for_its_parent(lock: Path) -> None:
    """As below `sudo -u`: it has no descriptor of the lock and may not look at its parent's."""
    blind = (
        "from harness.lock import descriptors as d\n"
        "d.descriptors_of = lambda pid, wanted: []\nd.may_look = lambda pid: False\n"
    )
    with gpu_lock("timed"):
        assert run([sys.executable, "-c", blind + ASK, "timed"]).stdout == "True None\n"
    freed = ASK.replace(
        "print(", "import os, fcntl; os.system('kill -USR1 %d' % os.getppid()); input(); print(", 1
    )
    top = f"""
import signal, subprocess, sys
from harness.lock import gpu_lock
with gpu_lock("timed") as held:
    signal.signal(signal.SIGUSR1, lambda *_: held.release())
    child = subprocess.Popen([sys.executable, "-c", {blind + freed!r}, "timed"], stdin=subprocess.PIPE)
    while held.check() is None:
        signal.sigtimedwait([], 0.01)
    child.communicate(b"\\n")
"""
    assert "no longer holds the lock" in run([sys.executable, "-c", top]).stdout


def test_nesting_in_one_process_waits_for_itself(lock: Path) -> None:
    with gpu_lock("timed", timeout=0) as outer, gpu_lock("timed", timeout=0) as inner:
        assert (outer.recognised, inner.recognised) == (False, True)
        with gpu_lock("timed", timeout=0) as innermost:
            assert innermost.check() is None
    with gpu_lock("correctness", ["GPU-a"], 0), gpu_lock("correctness", ["GPU-a"], 0) as inner:
        assert inner.recognised
        assert inner.check() is None


def test_leaving_the_inner_block_frees_the_outer_lock(lock: Path) -> None:
    with gpu_lock("timed") as outer:
        with gpu_lock("timed", timeout=0):
            pass
        assert outer.check() is None
        assert not flock_free(lock)


def test_an_upgrade_waits_for_itself(lock: Path) -> None:
    with gpu_lock("correctness", ["GPU-a"]) as outer:
        with pytest.raises(UsageProblem, match="would wait for itself"), gpu_lock("timed"):
            pass
        done = run(ask("timed"))
        assert "above this one, and only shared" in done.stderr
        assert outer.check() is None
    assert run(["flock", "-s", str(lock), *HARNESS, "lock", "true"]).returncode == 2


def test_an_open_file_without_a_lock_is_taken_for_the_lock(lock: Path, processes: Processes) -> None:
    processes.holder("timed")
    with lock.open() as merely_open:
        assert descriptors.lock_mode(lock, merely_open.fileno()) is None
        with pytest.raises(Unavailable), gpu_lock("timed", timeout=0):
            pass
        done = processes.start(ask("timed"), pass_fds=[merely_open.fileno()])
        assert "not had within 0 s" in done.communicate(timeout=LIMIT)[1]


def test_a_lock_of_another_file_is_taken_for_the_lock(
    lock: Path, tmp_path: Path, processes: Processes
) -> None:
    processes.holder("timed")
    with (tmp_path / "other").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Unavailable), gpu_lock("timed", timeout=0):
            pass


def test_a_record_lock_is_taken_for_a_flock(lock: Path) -> None:
    with lock.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert descriptors.lock_mode(lock, file.fileno()) is None


def test_two_series_below_one_lock_are_measured_side_by_side(lock: Path, processes: Processes) -> None:
    with gpu_lock("timed"):
        first = processes.start([sys.executable, "-c", "import sys; " + _HOLD_BELOW, "timed"])
        assert first.stdout is not None
        assert first.stdout.readline() == "True\n"
        assert "gpu-turn is held exclusively by pid" in run(ask("timed")).stderr
        assert "gpu-turn is held exclusively by pid" in run(ask("correctness", "GPU-a")).stderr
        first.communicate("\n", timeout=LIMIT)
        assert run(ask("timed")).stdout == "True None\n"


_HOLD_BELOW = """
from harness.lock import gpu_lock
with gpu_lock(sys.argv[1], sys.argv[2:], timeout=10) as held:
    print(held.recognised, flush=True)
    sys.stdin.readline()
"""


def test_two_devices_below_one_exclusive_lock_wait_for_each_other(lock: Path, processes: Processes) -> None:
    with gpu_lock("timed"):
        first = processes.start([sys.executable, "-c", "import sys; " + _HOLD_BELOW, "correctness", "GPU-a"])
        assert first.stdout is not None
        assert first.stdout.readline() == "True\n"
        assert run(ask("correctness", "GPU-b")).stdout == "True None\n"
        assert "gpu.GPU-a is held exclusively" in run(ask("correctness", "GPU-a")).stderr
        assert "gpu-turn is held shared" in run(ask("timed")).stderr
    assert turn_path(lock).exists()


def test_a_forked_child_frees_the_lock_of_its_parent(lock: Path) -> None:
    with gpu_lock("timed") as held:
        code = _in_fork(held.release)
        assert code == 0
        assert held.check() is None
        assert not flock_free(lock)
        assert lock.read_bytes().find(b'"kind": "timed"') > 0, "the child blanked its parent's record"


def test_a_forked_child_does_not_know_the_lock(lock: Path) -> None:
    def nested() -> None:
        with gpu_lock("timed", timeout=0) as inner:
            assert inner.recognised
            assert inner.check() is None

    with gpu_lock("timed"):
        assert _in_fork(nested) == 0


def _in_fork(work: object) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()  # type: ignore[operator]
        except BaseException:  # noqa: BLE001
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forgotten_forked_worker_keeps_a_finished_lock(lock: Path, processes: Processes) -> None:
    with gpu_lock("timed") as held:
        worker = processes.start(["cat"], pass_fds=held.pass_fds)
    assert worker.poll() is None
    assert flock_free(lock), "the block ended, so the lock is free, whoever still has the descriptor"


@pytest.mark.parametrize("mode", [fcntl.LOCK_EX, fcntl.LOCK_SH, None])
def test_without_a_list_of_locks_the_mode_is_guessed_or_changed(
    lock: Path, mode: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on macOS, where there is no /proc."""
    monkeypatch.setattr("harness.lock.proc.PROC", tmp_path / "no-proc")
    fd = open_lock(lock)
    try:
        if mode is not None:
            fcntl.flock(fd, mode)
        expected = None if mode is None else mode == fcntl.LOCK_EX
        assert descriptors.lock_mode(lock, fd) is expected
        assert flock_free(lock) is (mode is None)
        assert flock_free(lock, "-s") is (mode != fcntl.LOCK_EX)
    finally:
        os.close(fd)


def test_without_a_list_of_locks_a_foreign_lock_counts_as_ours(
    lock: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    processes.holder("timed")
    monkeypatch.setattr("harness.lock.proc.PROC", tmp_path / "no-proc")
    with lock.open() as merely_open:
        assert descriptors.lock_mode(lock, merely_open.fileno()) is None
    with pytest.raises(Unavailable), gpu_lock("timed", timeout=0):
        pass


def test_without_a_list_of_locks_nesting_waits_for_itself(
    lock: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("harness.lock.proc.PROC", tmp_path / "no-proc")
    with gpu_lock("timed") as outer, gpu_lock("timed", timeout=0) as inner:
        assert inner.recognised
        assert inner.check() is None
        lock.unlink()
        assert outer.check() is not None
        assert inner.check() is not None
        assert not lock.exists(), "checking a lost lock made a new file"
    assert not device_path(lock, "GPU-a").exists()
