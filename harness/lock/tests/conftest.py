"""Every test here has a lock file of its own, and ends every process that it started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.lock.tests.processes import Processes


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "gpu"
    monkeypatch.setenv("HARNESS_GPU_LOCK", str(path))
    return path


@pytest.fixture
def processes(lock: Path) -> Iterator[Processes]:
    with contextlib.ExitStack() as stack:
        yield Processes(stack)
