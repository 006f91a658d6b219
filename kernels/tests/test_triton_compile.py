"""Every encoding's Triton kernels compile for the GPUs that are named, with no GPU there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.paths import KERNELS
from kernels.units import load_units

CAPABILITIES = (80, 90, 100)


def compile_all(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: in this one Triton interprets."""
    settings = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    settings |= {"PYTHONPATH": str(KERNELS.parent)} | environment
    command = [sys.executable, "-m", "kernels.common.triton.compile_all", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=settings, timeout=900)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_loop_of_an_encoding_compiles(capability: int, tmp_path: Path) -> None:
    """A third of the encodings for each capability; `compile_all` does them all."""
    names = [found.name for found in load_units().values()][CAPABILITIES.index(capability) :: 3]
    report = tmp_path / "report.json"
    done = compile_all(
        [
            "--encodings",
            ",".join(names),
            "--capabilities",
            str(capability),
            "--tiles",
            "sample",
            "--json",
            str(report),
        ]
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    kernels: list[dict[str, Any]] = json.loads(report.read_text())
    assert len(kernels) == 3 * len(names)
    assert {kernel["job"]["encoding"] for kernel in kernels} == {f"ggml.{name}" for name in names}
    assert all(kernel["registers"] > 0 and not kernel["problem"] for kernel in kernels)


def test_an_interpreted_process_does_not_report_that_it_compiled() -> None:
    done = compile_all(["--encodings", "q4_0"], TRITON_INTERPRET="1")
    assert done.returncode == 2
    assert "TRITON_INTERPRET is set" in done.stderr


def test_an_encoding_that_is_not_there_is_no_success() -> None:
    done = compile_all(["--encodings", "q4_9", "--tiles", "sample"])
    assert done.returncode == 2
    assert "unknown encoding" in done.stderr
