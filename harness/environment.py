"""The machine and the packages that a run happened on, as evidence keeps them."""

from __future__ import annotations

import os
import platform
import resource
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "torch", "triton")


def describe() -> dict[str, Any]:
    """Python, packages, operating system, processor with its instruction-set flags, usable cores."""
    return {
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
        "system": platform.platform(),
        "machine": platform.machine(),
        "byte_order": sys.byteorder,
        "cpu": _cpu_info("model name") or platform.processor(),
        "cpu_flags": sorted(_cpu_info("flags").split()),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_info(key: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


def peak_rss() -> int:
    """Largest resident set of this process so far, in bytes; its workers are not counted.

    Read from VmHWM where there is a /proc, because `getrusage` also counts what the parent held at the fork.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024
