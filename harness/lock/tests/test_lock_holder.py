"""A waiting run says who holds the lock, whoever it is."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from harness.lock import gpu_lock, record
from harness.lock.holder import Holder, find
from harness.lock.listed import takers
from harness.lock.lockfile import open_lock
from harness.lock.tests.processes import HARNESS, LIMIT, Processes, eventually, flock_free


def who(path: Path) -> Holder:
    fd = open_lock(path)
    try:
        return find(path, fd)
    finally:
        os.close(fd)


def test_flock_as_holder_is_not_named(lock: Path, processes: Processes) -> None:
    process = processes.start(["flock", str(lock), "cat", "-"])
    assert eventually(lambda: lock.exists() and not flock_free(lock))
    holder = who(lock)
    assert (holder.pid, holder.exclusive) == (process.pid, True)
    assert holder.command == f"flock {lock} cat -"


def test_our_holder_is_not_named_with_kind_and_time(lock: Path, processes: Processes) -> None:
    process = processes.holder("timed")
    text = str(who(lock))
    assert f"held exclusively by pid {process.pid}: {sys.executable} -c" in text
    assert "[timed] for " in text
    assert "\n" not in text


def test_only_one_of_several_sharers_is_counted(lock: Path, processes: Processes) -> None:
    pids = {processes.holder("correctness", device).pid for device in ("GPU-a", "GPU-b")}
    holder = who(lock)
    assert holder.pid in pids
    assert (holder.exclusive, holder.others) == (False, 1)


def test_a_dead_process_is_named_instead_of_the_child_that_has_the_lock(
    lock: Path, processes: Processes
) -> None:
    parent = processes.start(
        [*HARNESS, "lock", "--", sys.executable, "-c", "import os; print(os.getpid()); input()"]
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(timeout=LIMIT)
    assert not flock_free(lock), "the command still runs, so the GPU is still in use"
    assert who(lock).pid == child
    os.kill(child, signal.SIGKILL)
    assert eventually(lambda: flock_free(lock))


def test_a_bystander_that_opened_the_file_is_named(lock: Path, processes: Processes) -> None:
    lock.touch()
    with lock.open() as bystander:
        parent = processes.start(["cat"], pass_fds=[bystander.fileno()])
        process = processes.holder("timed")
        assert parent.poll() is None
        assert who(lock).pid == process.pid


def test_a_command_line_drives_the_terminal(lock: Path, processes: Processes) -> None:
    code = "import sys\nfrom harness.lock import gpu_lock\nwith gpu_lock('timed'): print('held', flush=True); input()"
    process = processes.start([sys.executable, "-c", code, "\x1b[2J\nall is well \u202e"])
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    text = str(who(lock))
    assert text.isprintable()
    assert "\x1b" not in text


def test_the_record_of_an_earlier_holder_is_taken_for_this_one(lock: Path, processes: Processes) -> None:
    lock.touch()
    with lock.open("r+b") as file:
        record.write(file.fileno(), record.current("timed"))
    process = processes.start(["flock", str(lock), "cat"])
    assert eventually(lambda: not flock_free(lock))
    holder = who(lock)
    assert (holder.pid, holder.kind, holder.since) == (process.pid, None, None)


def test_a_holder_in_another_container_is_not_named(lock: Path) -> None:
    lock.touch()
    elsewhere = record.Record(7, 1, "pid:[1]", "node\x1b1", "timed", 0.0, "python bench.py")
    with lock.open("r+b") as file:
        record.write(file.fileno(), elsewhere)
    holder = who(lock)
    assert (holder.pid, holder.kind) == (7, "timed")
    assert "another pid namespace (host node\\x1b1): python bench.py" in str(holder)


def test_a_crashed_holder_is_named_by_the_record_it_left(lock: Path, processes: Processes) -> None:
    crashed = processes.holder("timed")
    crashed.kill()
    crashed.wait(timeout=LIMIT)
    holder = who(lock)
    assert (holder.pid, holder.command) == (None, "")
    assert "not visible" in str(holder)


def test_a_finished_holder_is_still_recorded(lock: Path) -> None:
    with gpu_lock("timed"), lock.open("rb") as file:
        left = record.read(file.fileno())
        assert left is not None
        assert (left.pid, left.kind) == (os.getpid(), "timed")
    with lock.open("rb") as file:
        assert record.read(file.fileno()) is None


def test_a_holder_on_overlayfs_or_btrfs_is_not_named(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There st_dev is not the device that the kernel's list names; the mount table has it."""
    lock.touch()
    fd = open_lock(lock)
    inode = os.fstat(fd).st_ino
    files = {
        "locks": f"1: -> FLOCK  ADVISORY  WRITE 11 00:2a:{inode} 0 EOF\n"
        f"2: POSIX  ADVISORY  WRITE 12 00:2a:{inode} 0 EOF\n"
        f"3: FLOCK  ADVISORY  WRITE 13 00:2b:{inode} 0 EOF\n"
        f"4: FLOCK  ADVISORY  READ 14 00:2a:{inode} 0 EOF\n"
        f"5: FLOCK  ADVISORY  WRITE 15 00:2a:{inode + 1} 0 EOF\n"
        "nonsense\n",
        f"self/fdinfo/{fd}": "pos:\t0\nmnt_id:\t77\n",
        "self/mountinfo": "76 1 0:43 / /a rw - x y z\n77 1 0:42 / /tmp rw - overlay o rw\n",
    }
    for name, text in files.items():
        (tmp_path / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc" / name).write_text(text)
    monkeypatch.setattr("harness.lock.proc.PROC", tmp_path / "proc")
    try:
        assert takers(fd) == {14: False}
    finally:
        os.close(fd)
