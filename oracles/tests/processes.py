"""Waiting for processes to appear and to go."""

import signal
import time
from pathlib import Path

import pytest


def gone(pid):
    """Whether a process has ended, collected by its parent or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            pytest.fail("it did not happen in time")
        time.sleep(0.02)


def heeds_signals():
    """For `preexec_fn`: nohup, and a shell's `&`, leave signals ignored in all that they start."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
