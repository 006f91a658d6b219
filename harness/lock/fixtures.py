"""pytest fixtures for cases that use a GPU. Override `gpu_uuid_source` or `gpu_lock_timeout` to change what they ask.

Both end a case with an error when its lock was lost half-way: what it saw proves nothing then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

from harness.errors import Unavailable
from harness.lock.acquire import Held, Kind, gpu_lock
from harness.lock.announce import announcer
from harness.lock.devices import visible_uuids


@pytest.fixture(scope="session")
def gpu_uuid_source() -> Callable[[], Sequence[str]]:
    """The function that gives the UUIDs of the devices that a correctness case uses."""
    return visible_uuids


@pytest.fixture(scope="session")
def gpu_lock_timeout() -> float | None:
    """Seconds that a case waits for the lock."""
    return 3600.0


@pytest.fixture
def gpu_correctness(
    request: pytest.FixtureRequest,
    gpu_uuid_source: Callable[[], Sequence[str]],
    gpu_lock_timeout: float | None,
) -> Iterator[Held]:
    """The devices of `gpu_uuid_source` for this case alone; other devices may work beside it."""
    yield from _locked(request, "correctness", gpu_uuid_source(), gpu_lock_timeout)


@pytest.fixture
def gpu_timed(request: pytest.FixtureRequest, gpu_lock_timeout: float | None) -> Iterator[Held]:
    """The whole machine for a timed series; the series calls `held.check()` before and after each arm."""
    yield from _locked(request, "timed", (), gpu_lock_timeout)


def _locked(
    request: pytest.FixtureRequest, kind: Kind, devices: Sequence[str], timeout: float | None
) -> Iterator[Held]:
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        if capture is None:
            print(line, file=sys.stderr)
            return
        with capture.global_and_fixture_disabled():
            print(f"\n{request.node.nodeid}: {line}", file=sys.stderr, flush=True)

    with gpu_lock(kind, devices, timeout, announcer(say)) as held:
        yield held
        reason = held.check()
    if reason is not None:
        raise Unavailable(f"the GPU lock was lost while {request.node.nodeid} ran: {reason}")
