"""A right decoder that gets the oracle's worker killed in the middle of its second tensor."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

from kernels.provider import dequantize as right

turn = itertools.count()


def worker_of(pin_path):
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == os.getppid() and pin_path in command:
                return int(entry.name)
    raise RuntimeError("the worker was not found")


def dequantize(encoding, data, shape):
    if next(turn) == 2:
        pid = worker_of(b"llama_cpp/ops/worker.py")
        os.kill(pid, signal.SIGSTOP)  # so that the next call is under way when the kill comes
        later = f"import os, time; time.sleep(0.5); os.kill({pid}, 9)"
        subprocess.Popen([sys.executable, "-c", later], start_new_session=True)
    return right(encoding, data, shape)
