"""The lock file is opened safely, and nothing that stands in a file there is ever lost."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from harness.errors import Unavailable, UsageProblem
from harness.lock import canonical_uuid, device_path, gpu_lock, lock_path, record
from harness.lock.paths import turn_path
from harness.lock.tests.processes import Processes, harness_lock


@pytest.mark.parametrize("target", ["precious", "absent"])
def test_a_link_is_followed(lock: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "precious").write_text("data")
    lock.symlink_to(tmp_path / target)
    with pytest.raises(Unavailable, match="symbolic link to") as error, gpu_lock("timed", timeout=0):
        pass
    assert str(lock) in str(error.value)
    assert (tmp_path / "precious").read_text() == "data"
    assert not (tmp_path / "absent").exists()


def test_a_link_that_appears_while_waiting_is_followed(
    lock: Path, tmp_path: Path, processes: Processes
) -> None:
    processes.holder("timed")
    other = tmp_path / "other"
    other.touch()

    def replace(_: object) -> None:
        lock.unlink()
        lock.symlink_to(other)

    with pytest.raises(Unavailable, match="symbolic link"), gpu_lock("timed", timeout=10, on_wait=replace):
        pass


def test_a_link_in_place_of_a_device_file_is_followed(lock: Path, tmp_path: Path) -> None:
    device_path(lock, "GPU-a").symlink_to(tmp_path / "other")
    with pytest.raises(Unavailable, match="symbolic link"), gpu_lock("correctness", ["GPU-a"], timeout=0):
        pass


def test_the_command_hides_that_it_met_a_link(lock: Path, tmp_path: Path) -> None:
    lock.symlink_to(tmp_path / "other")
    done = harness_lock("--", "echo", "ran")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"{lock} is a symbolic link" in done.stderr


def test_a_folder_or_a_pipe_hangs_or_is_locked(lock: Path) -> None:
    os.mkfifo(lock)
    with pytest.raises(Unavailable, match="not a regular file"), gpu_lock("timed", timeout=0):
        pass
    lock.unlink()
    lock.mkdir()
    with pytest.raises(Unavailable, match="not a regular file"), gpu_lock("timed", timeout=0):
        pass


def test_a_missing_folder_is_a_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_GPU_LOCK", str(tmp_path / "none" / "gpu"))
    with pytest.raises(Unavailable, match="No such file"), gpu_lock("timed"):
        pass


def test_a_relative_lock_file_is_another_lock_in_every_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_GPU_LOCK", "gpu.lock")
    with pytest.raises(UsageProblem, match="absolute"):
        lock_path()
    monkeypatch.setenv("HARNESS_GPU_LOCK", "")
    assert lock_path() == Path("/tmp/gpu")


@pytest.mark.parametrize("content", [b"x", b"harness-gpu-lock is a note of mine\n", b"\0" * record.SIZE])
def test_foreign_content_is_overwritten(lock: Path, content: bytes) -> None:
    lock.write_bytes(content)
    with gpu_lock("timed", timeout=0) as held:
        assert held.check() is None
        assert lock.read_bytes() == content
    assert lock.read_bytes() == content


def test_a_file_of_another_user_is_written_to(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock.touch()
    monkeypatch.setattr("os.geteuid", lambda: lock.stat().st_uid + 1)
    with gpu_lock("timed", timeout=0):
        assert lock.read_bytes() == b""


def test_a_second_name_of_an_empty_file_is_written_to(lock: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    lock.hardlink_to(tmp_path / "precious")
    with gpu_lock("timed", timeout=0):
        assert (tmp_path / "precious").read_bytes() == b""


def test_the_file_shrinks_or_grows_from_record_to_record(lock: Path) -> None:
    for _ in range(3):
        with gpu_lock("timed", timeout=0):
            assert lock.stat().st_size == record.SIZE
        assert lock.stat().st_size == record.SIZE


def test_the_umask_locks_other_users_out(lock: Path) -> None:
    before = os.umask(0o077)
    try:
        with gpu_lock("correctness", ["GPU-a"], timeout=0):
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (lock, device_path(lock, "GPU-a"))]
    finally:
        os.umask(before)
    assert modes == [0o644, 0o644]


def test_a_lock_file_that_may_only_be_read_is_refused(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock.touch()
    real = os.open

    def readable_only(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode)

    monkeypatch.setattr("os.open", readable_only)
    with gpu_lock("timed", timeout=0) as held:
        assert held.check() is None


def test_a_uuid_leaves_the_folder_or_meets_another_file() -> None:
    base = Path("/run/gpu")
    names = {
        device_path(base, uuid) for uuid in ("../../etc/passwd", "a/b", "a%2Fb", "a b", "turn", "é", "..")
    }
    assert len(names) == 7
    assert {path.parent for path in names} == {base.parent}
    assert turn_path(base) not in names
    assert canonical_uuid("MIG-GPU-8f0c/1/0") == "MIG-GPU-8f0c/1/0"
    with pytest.raises(UsageProblem):
        canonical_uuid("x" * 200)
    with pytest.raises(UsageProblem):
        device_path(base, "\ud800")


@pytest.mark.parametrize(
    "fields",
    [
        "[]",
        "{}",
        "{" * 3000,
        json.dumps({"pid": True}),
        '{"pid":-1,"started":0,"namespace":"","host":"","kind":"","since":0.0,"command":""}',
        '{"pid":1,"started":0,"namespace":"","host":"","kind":"","since":NaN,"command":""}',
        '{"pid":1,"started":0,"namespace":"","host":"","kind":"","since":1.0,"command":["a"]}',
        "\xff\xfe",
    ],
)
def test_a_forged_record_breaks_the_waiting_message(lock: Path, fields: str) -> None:
    lock.write_bytes((record.MAGIC + fields.encode("latin-1")).ljust(record.SIZE))
    with lock.open("rb") as file:
        assert record.read(file.fileno()) is None
