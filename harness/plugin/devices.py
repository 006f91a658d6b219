"""Cases that need a device: one xdist worker a device, under the GPU lock, and a skip with a reason where there is none."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.errors import Unavailable
from harness.lock import devices
from harness.plugin.conditions import CONDITIONS

DEVICE_BACKENDS = ("cuda@", "triton@sm_", "metal@apple")


def missing_device(backend: str) -> str | None:
    """Why a case of this backend cannot run here, or None."""
    if backend.startswith("metal@apple"):
        return "Apple silicon with Metal is not in this machine" if CONDITIONS["no_metal"]() else None
    return "no NVIDIA device is visible to this process" if CONDITIONS["no_gpu"]() else None


@functools.cache
def _uuids() -> tuple[str, ...]:
    try:
        return tuple(devices.visible_uuids())
    except Unavailable:
        return ()


def device_index(nodeid: str) -> int | None:
    """Which of the visible devices an item uses; None for an item that needs none.

    An item's backend is the end of its case ID, and so of its node ID: the controller of xdist sees nothing else of it.
    """
    backend = nodeid.rsplit("/", 1)[-1]
    if not backend.startswith(DEVICE_BACKENDS):
        return None
    return zlib.crc32(nodeid.encode()) % max(1, len(_uuids()))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where there is a device, each has one worker for its cases. (xdist's own groups need markers on node IDs.)"""
    if config.option.dist != "load" or not _uuids():
        return None
    from harness.plugin.scheduling import DeviceScheduling

    return DeviceScheduling(config, log)


@pytest.fixture
def gpu_uuid_source(request: pytest.FixtureRequest) -> Callable[[], Sequence[str]]:
    """The one device of the item's group, for the lock of `gpu_correctness`."""
    index = device_index(request.node.nodeid) or 0
    return lambda: devices.visible_uuids()[index : index + 1]
