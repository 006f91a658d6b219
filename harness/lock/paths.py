"""The names of the lock files: the machine's one lock, one beside it for each device, and the turn below it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote

from harness.errors import UsageProblem
from harness.text import printable

VARIABLE = "HARNESS_GPU_LOCK"
DEFAULT = Path("/tmp/gpu")
CPU_VARIABLE = "HARNESS_CPU_LOCK"
CPU_DEFAULT = Path("/tmp/harness-cpu")

_MAX_UUID = 120
_NVIDIA_UUID = re.compile(r"(?:GPU-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)


def lock_path() -> Path:
    """`$HARNESS_GPU_LOCK`, else `/tmp/gpu`. A relative path is refused: it would be another lock in every folder."""
    return _chosen(VARIABLE, DEFAULT)


def cpu_lock_path() -> Path:
    """`$HARNESS_CPU_LOCK`, else `/tmp/harness-cpu`: two timed series on the CPU keep each other out."""
    return _chosen(CPU_VARIABLE, CPU_DEFAULT)


def _chosen(variable: str, default: Path) -> Path:
    value = os.environ.get(variable)
    if not value:
        return default
    path = Path(value)
    if not path.is_absolute() or "\0" in value:
        raise UsageProblem(f"{variable} is {printable(value)}; wanted an absolute path, such as {default}")
    return path


def canonical_uuid(uuid: str) -> str:
    """One spelling per device: nvidia-smi writes `GPU-8f0c…`, torch writes the same without `GPU-`."""
    if not uuid or len(uuid) > _MAX_UUID:
        raise UsageProblem(f"device UUID {printable(uuid)!r}; wanted 1 to {_MAX_UUID} characters")
    nvidia = _NVIDIA_UUID.fullmatch(uuid)
    return f"GPU-{nvidia[1].lower()}" if nvidia else uuid


def device_path(base: Path, uuid: str) -> Path:
    """`/tmp/gpu.<uuid>`. Percent-encoded, so that no UUID leaves the folder and no two share a file."""
    try:
        encoded = quote(canonical_uuid(uuid), safe="")
    except UnicodeEncodeError:
        raise UsageProblem(f"device UUID {printable(uuid)!r}; wanted valid text") from None
    return base.with_name(f"{base.name}.{encoded}")


def turn_path(base: Path) -> Path:
    """`/tmp/gpu-turn`: what works below one inherited lock takes turns on it. Never the name of a device's file."""
    return base.with_name(f"{base.name}-turn")
