"""pip as a downloader: started by the interpreter that has it, told by progress lines, failing with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from harness.errors import Unavailable
from harness.text import printable
from oracles import leash

SHOWN_LINES = 6
# pip's settings that would contradict a lock; the user's mirrors and certificates stay in force.
OVERRIDDEN = {"PIP_CONSTRAINT": os.devnull, "PIP_REQUIRE_VIRTUALENV": "0"}
DROPPED = ("PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIREMENT", "PIP_NO_BINARY", "PIP_REPORT")

Progress = Callable[[str], None]


def base_python() -> str:
    """The interpreter that the harness's own environment was made from: it has venv and ensurepip, ours may not."""
    return str(getattr(sys, "_base_executable", None) or sys.executable)


def downloads(line: str) -> bool:
    """Whether a line of pip's says that something is fetched or installed."""
    return line.startswith(("Downloading ", "Installing "))


def run_step(
    command: Sequence[str],
    *,
    what: str,
    tell: Progress,
    show: Callable[[str], bool] = downloads,
    env: Mapping[str, str] = os.environ,
    log: IO[str] | None = None,
) -> None:
    """Run one step of an installation, passing on the lines that `show` chooses. It ends when the harness does, however
    that ends.

    `log` gets every line. Raises Unavailable with the end of its output when it fails.
    """
    env = {
        name: value for name, value in env.items() if not name.startswith("PYTHON") and name not in DROPPED
    }
    last: list[str] = []
    step = leash.start(
        command,
        env={**env, **OVERRIDDEN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with step.process as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last = [*last, line.strip()][-SHOWN_LINES:]
                if log is not None:
                    log.write(line)
                if show(line.strip()):
                    tell(printable(line.strip()))
            process.wait()
        finally:
            step.end()
            step.release()
    if process.returncode:
        end = " | ".join(printable(line, 300) for line in last if line)
        raise Unavailable(f"{what} failed (status {process.returncode}): {end}")


def run_pip(arguments: Sequence[str], *, what: str, python: str, tell: Progress) -> None:
    """Run pip with the interpreter `python`, or from an environment made for the purpose where that one has no pip."""
    options = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    verb, *rest = arguments
    if subprocess.run([python, "-I", "-c", "import pip"], capture_output=True, check=False).returncode == 0:
        run_step([python, "-I", "-m", "pip", verb, *options, *rest], what=f"fetching {what}", tell=tell)
        return
    with tempfile.TemporaryDirectory() as folder:
        run_step([python, "-I", "-m", "venv", folder], what="making an environment with pip", tell=tell)
        run_step(
            [f"{folder}/bin/python", "-I", "-m", "pip", verb, *options, *rest],
            what=f"fetching {what}",
            tell=tell,
        )
