"""Which devices a process would use, without asking CUDA: a stand-in for nvidia-smi gives the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import Unavailable
from harness.lock.devices import visible_uuids

A, B = "GPU-8f0c1b2a-0000-1111-2222-333344445555", "GPU-9a0c1b2a-0000-1111-2222-333344445555"
SAME = f"echo '{A}, H200'; echo '{B}, H200'"
MIXED = f"echo '{A}, H200'; echo '{B}, L4'"


@pytest.fixture(autouse=True)
def _linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("script", "visible", "expected"),
    [
        (SAME, None, (A, B)),
        (SAME, "1", (B,)),
        (SAME, "1,0", (B, A)),
        (SAME, "GPU-9a", (B,)),
        (SAME, "0,7,1", (A,)),
        (SAME, "MIG-1,MIG-2", ("MIG-1", "MIG-2")),
        (MIXED, f"{A}", (A,)),
    ],
)
def test_another_device_is_locked_than_cuda_uses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    visible: str | None,
    expected: tuple[str, ...],
) -> None:
    stand_in(tmp_path, monkeypatch, script)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_uuids() == expected


def test_numbers_of_unlike_devices_are_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, MIXED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(Unavailable, match="PCI_BUS_ID"):
        visible_uuids()
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert visible_uuids() == (A,)


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'", f"echo '{A}, H200'; exit 1"])
def test_no_device_is_taken_for_no_lock_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    stand_in(tmp_path, monkeypatch, script)
    with pytest.raises(Unavailable, match="lists no device"):
        visible_uuids()


@pytest.mark.parametrize("visible", ["", "-1", "GPU-"])
def test_hidden_devices_are_locked_or_none_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    stand_in(tmp_path, monkeypatch, SAME)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(Unavailable, match="leaves no device"):
        visible_uuids()


def test_a_machine_without_a_driver_is_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="not installed"):
        visible_uuids()
