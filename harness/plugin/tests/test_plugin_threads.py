"""Two workers on two cores must not run four threads: products took five times as long."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from harness.plugin import threads


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in threads.THREADS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def session(workers: int | None, **more: Any) -> Any:
    return SimpleNamespace(option=SimpleNamespace(numprocesses=workers), **more)


def test_workers_start_with_all_the_threads_of_the_machine() -> None:
    threads.pytest_configure(session(2))
    assert [os.environ[name] for name in threads.THREADS] == ["1"] * len(threads.THREADS)


def test_what_the_user_set_is_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    threads.pytest_configure(session(2))
    assert os.environ["OPENBLAS_NUM_THREADS"] == "4"


def test_a_run_without_workers_is_slowed_down() -> None:
    threads.pytest_configure(session(None))
    assert "OPENBLAS_NUM_THREADS" not in os.environ
