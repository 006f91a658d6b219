"""Who keeps whom out: timed, correctness, and `flock` of util-linux."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from harness.errors import Unavailable, UsageProblem
from harness.lock import Holder, device_path, gpu_lock
from harness.lock.tests.processes import LIMIT, Processes, eventually, flock_free, harness_lock


def test_flock_gets_in_beside_a_timed_series(lock: Path) -> None:
    with gpu_lock("timed"):
        assert not flock_free(lock)
        assert not flock_free(lock, "-s")
    assert flock_free(lock)


def test_a_timed_series_gets_in_beside_flock(lock: Path, processes: Processes) -> None:
    processes.start(["flock", str(lock), "cat"])
    assert eventually(lambda: lock.exists() and not flock_free(lock))
    with pytest.raises(Unavailable, match="not had within 0 s"), gpu_lock("timed", timeout=0):
        pass
    with pytest.raises(Unavailable, match="not had within 0 s"), gpu_lock("correctness", timeout=0):
        pass


def test_correctness_work_keeps_out_shared_flock_or_lets_in_exclusive(lock: Path) -> None:
    with gpu_lock("correctness", ["GPU-a"]):
        assert flock_free(lock, "-s")
        assert not flock_free(lock)


def test_two_devices_wait_for_each_other(lock: Path, processes: Processes) -> None:
    processes.holder("correctness", "GPU-a")
    with gpu_lock("correctness", ["GPU-b"], timeout=0) as held:
        assert held.check() is None


def test_one_device_is_used_twice_at_once(lock: Path, processes: Processes) -> None:
    first = processes.holder("correctness", "GPU-a", "GPU-b")
    with pytest.raises(Unavailable, match="GPU-b"), gpu_lock("correctness", ["GPU-b", "GPU-c"], timeout=0):
        pass
    assert flock_free(device_path(lock, "GPU-c")), "what was taken before the failure has to be free again"
    first.communicate("\n", timeout=LIMIT)
    with gpu_lock("correctness", ["GPU-b", "GPU-c"], timeout=0) as held:
        assert held.devices == ("GPU-b", "GPU-c")


def test_a_timed_series_starts_beside_correctness_work(lock: Path, processes: Processes) -> None:
    processes.holder("correctness", "GPU-a")
    with pytest.raises(Unavailable, match="held shared by pid"), gpu_lock("timed", timeout=0):
        pass


def test_correctness_work_starts_beside_a_timed_series(lock: Path, processes: Processes) -> None:
    processes.holder("timed")
    with (
        pytest.raises(Unavailable, match="held exclusively by pid"),
        gpu_lock("correctness", ["GPU-a"], timeout=0),
    ):
        pass


def test_work_queueing_for_a_device_keeps_a_timed_series_out(lock: Path, processes: Processes) -> None:
    first = processes.holder("correctness", "GPU-a")
    code = (
        "from harness.lock import gpu_lock\nwith gpu_lock('correctness', ['GPU-a'], timeout=10): print('in')"
    )
    second = processes.start([sys.executable, "-c", code])
    assert eventually(lambda: any(_opens(second.pid, device_path(lock, "GPU-a"))))
    assert not any(_opens(second.pid, lock)), (
        "it must not share the machine while it only waits for its device"
    )
    first.communicate("\n", timeout=LIMIT)
    assert second.communicate(timeout=LIMIT)[0] == "in\n"


def _opens(pid: int, path: Path) -> list[bool]:
    return [link.exists() and link.samefile(path) for link in Path(f"/proc/{pid}/fd").iterdir()]


def test_one_device_under_two_spellings_has_two_locks(lock: Path) -> None:
    bare = "8F0C1B2A-0000-1111-2222-333344445555"
    with gpu_lock("correctness", [bare, f"GPU-{bare.lower()}"], timeout=0) as held:
        assert held.devices == (f"GPU-{bare.lower()}",)


def test_a_killed_holder_keeps_the_lock(lock: Path, processes: Processes) -> None:
    holder = processes.holder("timed")
    assert not flock_free(lock)
    holder.kill()
    holder.wait(timeout=LIMIT)
    with gpu_lock("timed", timeout=0) as held:
        assert held.check() is None


def test_waiting_goes_on_after_the_time_out(lock: Path, processes: Processes) -> None:
    holder = processes.holder("timed")
    seen: list[Holder] = []
    begun = time.monotonic()
    with pytest.raises(Unavailable) as error, gpu_lock("timed", timeout=0.5, on_wait=seen.append):
        pass
    assert 0.5 <= time.monotonic() - begun < LIMIT
    assert error.value.exit_code == 3
    assert [one.pid for one in seen] == [holder.pid]
    assert seen[0].waited > 0


def test_a_waiting_process_sleeps_through_the_release(lock: Path, processes: Processes) -> None:
    holder = processes.holder("timed")
    seen: list[Holder] = []

    def let_go(one: Holder) -> None:
        seen.append(one)
        holder.communicate("\n", timeout=LIMIT)

    with gpu_lock("timed", timeout=10, on_wait=let_go) as held:
        assert held.check() is None
    assert len(seen) == 1


def test_the_lock_outlives_a_failing_series(lock: Path) -> None:
    with pytest.raises(ZeroDivisionError), gpu_lock("timed"):
        raise ZeroDivisionError
    assert flock_free(lock)


def test_descriptors_are_left_behind(lock: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    with gpu_lock("correctness", ["GPU-a"]), gpu_lock("correctness", ["GPU-a"]):
        pass
    assert len(list(Path("/dev/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("kind", "devices", "timeout"),
    [("timd", (), None), ("correctness", "GPU-a", None), ("correctness", ("",), None), ("timed", (), -1.0)],
)
def test_a_mistyped_request_locks_something_else(
    lock: Path, kind: str, devices: tuple[str, ...], timeout: float | None
) -> None:
    with pytest.raises(UsageProblem), gpu_lock(kind, devices, timeout):  # type: ignore[arg-type]
        pass
    assert not lock.exists()


def test_a_time_out_of_the_command_ends_in_another_status_than_3(lock: Path, processes: Processes) -> None:
    holder = processes.holder("timed")
    done = harness_lock("--timeout", "0.3", "--", "echo", "ran")
    assert done.returncode == 3
    assert done.stdout == ""
    assert f"pid {holder.pid}: " in done.stderr
    assert "Traceback" not in done.stderr
