"""The named conditions under which a case may be skipped: names, so that a list of skips can say what each waits for."""

from __future__ import annotations

import functools
import platform
import shutil
import sys
from collections.abc import Callable

from harness.errors import Unavailable
from harness.lock.devices import visible_uuids

CONDITIONS: dict[str, Callable[[], bool]] = {"always": lambda: True}


def condition(name: str) -> Callable[[Callable[[], bool]], Callable[[], bool]]:
    """Give a condition its name. It is asked once a process."""

    def register(holds: Callable[[], bool]) -> Callable[[], bool]:
        CONDITIONS[name] = functools.cache(holds)
        return CONDITIONS[name]

    return register


@condition("no_gpu")
def no_gpu() -> bool:
    """No NVIDIA device that this process may use."""
    try:
        return sys.platform == "darwin" or not visible_uuids()
    except Unavailable:
        return True


@condition("no_metal")
def no_metal() -> bool:
    """Not a Mac with Apple silicon."""
    return not (sys.platform == "darwin" and platform.machine() == "arm64")


@condition("not_x86_64")
def not_x86_64() -> bool:
    """Another CPU than the one that the prebuilt oracles are pinned for first."""
    return platform.machine().lower() not in ("x86_64", "amd64")


@condition("no_c_compiler")
def no_c_compiler() -> bool:
    """No C compiler on the path."""
    return not any(map(shutil.which, ("cc", "gcc", "clang")))
