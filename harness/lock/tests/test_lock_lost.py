"""A lock that was lost half-way is noticed, so that a series that ran on without it becomes VOID."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from harness.lock import device_path, gpu_lock, lockfile
from harness.lock.tests.processes import HARNESS, LIMIT, Processes, flock_free, harness_lock


def test_a_deleted_lock_file_goes_unnoticed(lock: Path) -> None:
    with gpu_lock("timed") as held:
        assert held.check() is None
        lock.unlink()
        assert "is gone" in str(held.check())


def test_a_replaced_lock_file_goes_unnoticed(lock: Path) -> None:
    with gpu_lock("timed") as held:
        lock.unlink()
        lock.touch()
        assert flock_free(lock), "the next process gets in, which is why it has to be noticed"
        assert "replaced by another file" in str(held.check())


def test_a_lock_file_moved_over_goes_unnoticed(lock: Path, tmp_path: Path) -> None:
    with gpu_lock("timed") as held:
        (tmp_path / "other").touch()
        (tmp_path / "other").replace(lock)
        assert "replaced by another file" in str(held.check())


def test_a_lock_file_replaced_by_a_link_to_itself_goes_unnoticed(lock: Path, tmp_path: Path) -> None:
    with gpu_lock("timed") as held:
        lock.rename(tmp_path / "moved")
        lock.symlink_to(tmp_path / "moved")
        assert "symbolic link" in str(held.check())


def test_a_lost_device_file_goes_unnoticed(lock: Path) -> None:
    with gpu_lock("correctness", ["GPU-a"]) as held:
        device_path(lock, "GPU-a").unlink()
        assert "gpu.GPU-a is gone" in str(held.check())


def test_a_released_lock_goes_unnoticed(lock: Path) -> None:
    with gpu_lock("timed") as held:
        fcntl.flock(held.pass_fds[0], fcntl.LOCK_UN)
        assert "no longer holds the lock" in str(held.check())


def test_a_weakened_lock_goes_unnoticed(lock: Path) -> None:
    with gpu_lock("timed") as held:
        fcntl.flock(held.pass_fds[0], fcntl.LOCK_SH)
        assert "only shared" in str(held.check())


def test_a_closed_descriptor_goes_unnoticed(lock: Path) -> None:
    with gpu_lock("timed") as held:
        os.close(held.pass_fds[0])
        assert "was closed" in str(held.check())


def test_a_reused_descriptor_number_is_taken_for_the_lock(lock: Path, tmp_path: Path) -> None:
    other = (tmp_path / "other").open("w")
    with other:
        with gpu_lock("timed") as held:
            os.dup2(other.fileno(), held.pass_fds[0])
            assert "another file now" in str(held.check())
            number = held.pass_fds[0]
        assert os.fstat(number).st_ino == os.fstat(other.fileno()).st_ino, (
            "releasing closed somebody else's file"
        )
        os.close(number)


def test_a_process_above_that_died_still_counts_as_holder(lock: Path, processes: Processes) -> None:
    # The middle process closes the inherited descriptors, as Python's subprocess does, so only the top holds.
    inner = (
        "from harness.lock import gpu_lock\n"
        "with gpu_lock('timed', timeout=0) as held:\n"
        "    print(held.recognised, held.check(), flush=True); input(); print(held.check(), flush=True)"
    )
    middle = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    top = f"""
import subprocess, sys
from harness.lock import gpu_lock
with gpu_lock("timed"):
    subprocess.run([sys.executable, "-c", {middle!r}])
"""
    process = processes.start([sys.executable, "-c", top])
    assert process.stdout is not None
    assert process.stdout.readline() == "True None\n"
    process.kill()
    process.wait(timeout=LIMIT)
    out, _ = process.communicate("\n", timeout=LIMIT)
    assert f"process {process.pid}, which held the lock for this one, has ended" in out


def test_a_nested_series_relies_on_a_lock_that_its_parent_gave_up(lock: Path, processes: Processes) -> None:
    with gpu_lock("timed") as outer, gpu_lock("timed", timeout=0) as inner:
        assert inner.recognised
        outer.release()
        assert inner.check() is not None


def test_the_command_hides_a_loss(lock: Path) -> None:
    done = harness_lock("--", "sh", "-c", f"rm {lock}; exit 5")
    assert done.returncode == 5
    assert "was lost while CMD ran" in done.stderr
    assert "void" in done.stderr


def test_a_lock_on_a_file_that_was_replaced_while_opening_counts(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lockfile.try_lock
    replaced = []

    def replace_first(fd: int, *, exclusive: bool) -> bool:
        if not replaced:
            replaced.append(os.fstat(fd).st_ino)
            lock.unlink()
        return real(fd, exclusive=exclusive)

    monkeypatch.setattr("harness.lock.lockfile.try_lock", replace_first)
    with gpu_lock("timed", timeout=0) as held:
        assert held.check() is None
        assert not flock_free(lock)
    assert len(replaced) == 1


@pytest.mark.parametrize("kind", ["timed", "correctness"])
def test_a_lock_on_a_file_that_was_replaced_while_waiting_counts(
    lock: Path, processes: Processes, kind: str
) -> None:
    first = processes.start([*HARNESS, "lock", "--", "sh", "-c", "echo in; read line"])
    assert first.stdout is not None
    assert first.stdout.readline() == "in\n"

    def replace(_: object) -> None:
        lock.unlink()

    with gpu_lock(kind, timeout=10, on_wait=replace) as held:  # type: ignore[arg-type]
        assert held.check() is None
        assert held.files[0].identity == (lock.stat().st_dev, lock.stat().st_ino)
