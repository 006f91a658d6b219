"""`harness lock -- CMD` is as transparent as the shell: status, signals, descriptors, output."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.lock.tests.processes import HARNESS, LIMIT, Processes, flock_free, harness_lock, run


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)],
)
def test_the_status_of_the_command_is_lost(lock: Path, script: str, status: int) -> None:
    done = harness_lock("--", "sh", "-c", f"echo out; echo err >&2; {script}")
    assert (done.returncode, done.stdout, done.stderr) == (status, "out\n", "err\n")
    assert flock_free(lock)


def test_a_missing_command_ends_in_a_traceback(lock: Path) -> None:
    done = harness_lock("--", "no-such\x1bcommand")
    assert done.returncode == 127
    assert done.stderr == "harness lock: no-such\\x1bcommand: command not found\n"


def test_a_file_that_is_no_program_ends_in_a_traceback(lock: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("data")
    done = harness_lock("--", str(tmp_path / "data"))
    assert done.returncode == 126
    assert done.stderr.endswith("data: Permission denied\n")


@pytest.mark.parametrize(
    "arguments",
    [[], ["--"], ["--device", "GPU-a", "--", "true"], ["--timeout", "-1", "true"], ["--frobnicate", "true"]],
)
def test_a_mistake_on_the_command_line_runs_something(lock: Path, arguments: list[str]) -> None:
    done = harness_lock(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not lock.exists()


def test_a_wrapper_below_a_wrapper_takes_the_turn_that_a_series_needs(lock: Path) -> None:
    assert harness_lock("--", *HARNESS, "lock", "--", "flock", "-n", f"{lock}-turn", "true").returncode == 0


def test_options_of_the_command_are_taken_for_ours(lock: Path) -> None:
    assert harness_lock("echo", "--shared", "-h").stdout == "--shared -h\n"


def test_the_command_runs_without_the_lock(lock: Path) -> None:
    exclusive = harness_lock("--", "flock", "-n", "-s", str(lock), "true")
    shared = harness_lock(
        "--shared", "--device", "GPU-a", "--", "sh", "-c", f"flock -n -s {lock} echo main; true"
    )
    device = harness_lock("--shared", "--device", "GPU-a", "--", "flock", "-n", f"{lock}.GPU-a", "true")
    assert (exclusive.returncode, shared.stdout, device.returncode) == (1, "main\n", 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_stops_the_wrapper_and_not_the_command(
    lock: Path, processes: Processes, number: signal.Signals
) -> None:
    code = f"""
import os, signal, sys, time
# Not print: the signal may come while it still holds the stream.
signal.signal({int(number)}, lambda *_: (os.write(1, b"got it\\n"), sys.exit(9)))
os.write(1, b"ready\\n")
time.sleep({LIMIT})
"""
    process = processes.start([*HARNESS, "lock", "--", sys.executable, "-c", code])
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT)
    assert (out, process.returncode) == ("got it\n", 9), err


def test_one_ctrl_c_reaches_the_command_twice(lock: Path) -> None:
    """The terminal sends it to both; forwarded as well, it would abort a pytest that is cleaning up."""
    code = """
import signal, time
count = 0
def again(*_):
    global count
    count += 1
    print("interrupts:", count, flush=True)
signal.signal(signal.SIGINT, again)
print("ready", flush=True)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.05)
print("done", flush=True)
"""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(HARNESS[0], [*HARNESS, "lock", "--", sys.executable, "-c", code])
    try:
        seen = _read_until(terminal, "ready")
        os.kill(child, signal.SIGSTOP)  # so that two signals cannot arrive as one
        os.write(terminal, b"\x03")
        seen += _read_until(terminal, "interrupts: 1")
        os.kill(child, signal.SIGCONT)
        seen += _read_until(terminal, "done")
        assert "interrupts: 1" in seen
        assert "interrupts: 2" not in seen
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def _read_until(terminal: int, text: str) -> str:
    seen = ""
    while text not in seen and select.select([terminal], [], [], LIMIT)[0]:
        try:
            part = os.read(terminal, 1)
        except OSError:  # the other side is closed
            break
        seen += part.decode("utf-8", "replace")
    return seen


def test_signals_stay_blocked_or_ignored_in_the_command(lock: Path) -> None:
    code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []) or 'none')"
    assert harness_lock("--", sys.executable, "-c", code).stdout == "none\n"
    broken_pipe = harness_lock("--", "bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}")
    assert broken_pipe.stdout == "y\n141\n"


def test_a_descriptor_that_the_caller_meant_for_the_command_is_closed(lock: Path) -> None:
    script = '"$@" /dev/fd/7 7< <(echo through)'
    done = run(["bash", "-c", script, "bash", *HARNESS, "lock", "--", "cat"])
    assert done.stdout == "through\n"


def test_the_command_leaves_a_child_that_uses_the_gpu_without_a_lock(
    lock: Path, processes: Processes
) -> None:
    done = harness_lock("--", "sh", "-c", "sleep 1 >/dev/null 2>&1 & echo left")
    assert done.stdout == "left\n"
    assert not flock_free(lock), "what the command left behind may still use the GPU, as below flock"


def test_a_second_wait_message_drowns_the_output(lock: Path, processes: Processes) -> None:
    holder = processes.holder("timed")
    done = harness_lock("--timeout", "1.5", "--", "true")
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["harness lock", "harness"]
    assert all(f"pid {holder.pid}" in line for line in lines)


def test_locking_costs_the_start_of_heavy_packages(lock: Path) -> None:
    code = "import sys, json, harness.cli.lock; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(run([sys.executable, "-c", code]).stdout))
    assert not loaded & {"numpy", "pydantic", "rich", "yaml", "torch", "pytest"}


def test_the_wrapper_leaves_a_zombie_or_hangs_on_a_fast_command(lock: Path) -> None:
    for _ in range(5):
        assert subprocess.run([*HARNESS, "lock", "true"], timeout=LIMIT, check=False).returncode == 0
