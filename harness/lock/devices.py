"""The UUIDs of the devices that this process would use, asked for without touching a device.

CUDA itself is not asked: initialising it would disturb whoever is measuring at this moment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from harness.errors import Unavailable
from harness.text import printable

_SECONDS = 30.0


def visible_uuids() -> tuple[str, ...]:
    """UUIDs of the devices that `CUDA_VISIBLE_DEVICES` leaves, else of all; raises Unavailable without a device.

    A Mac has one device, called `metal`. Numbers in `CUDA_VISIBLE_DEVICES` count as in `nvidia-smi`; where the
    devices are of several models they mean that only with `CUDA_DEVICE_ORDER=PCI_BUS_ID`, and are refused without.
    """
    if sys.platform == "darwin":
        return ("metal",)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [name.strip() for name in visible.split(",")] if visible is not None else None
    if names and all(name.startswith("MIG-") for name in names):
        return tuple(names)
    installed = _installed()
    if names is None:
        return tuple(uuid for uuid, _ in installed)
    ordered = (
        os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({model for _, model in installed}) == 1
    )
    chosen = []
    for name in names:
        if name.isdigit() and int(name) < len(installed):
            if not ordered:
                raise Unavailable(
                    "CUDA_VISIBLE_DEVICES has numbers and the devices are of several models: set"
                    " CUDA_DEVICE_ORDER=PCI_BUS_ID or give UUIDs"
                )
            chosen.append(installed[int(name)][0])
            continue
        matches = [uuid for uuid, _ in installed if name and uuid.startswith(name)]
        if len(matches) != 1:
            break  # as CUDA does: the first name that is no device ends the list
        chosen.append(matches[0])
    if not chosen:
        raise Unavailable(f"CUDA_VISIBLE_DEVICES={printable(visible or '')} leaves no device")
    return tuple(chosen)


def _installed() -> list[tuple[str, str]]:
    """(UUID, model) of each device in the order of the PCI bus."""
    program = shutil.which("nvidia-smi")
    if program is None:
        raise Unavailable("no GPU that the harness knows of: nvidia-smi is not installed")
    try:
        answer = subprocess.run(
            [program, "--query-gpu=uuid,name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"nvidia-smi did not answer: {printable(str(error))}") from error
    lines = [line.partition(",") for line in answer.stdout.splitlines()]
    found = [(uuid.strip(), model.strip()) for uuid, _, model in lines if uuid.startswith("GPU-")]
    if answer.returncode != 0 or not found:
        raise Unavailable(f"nvidia-smi lists no device: {printable((answer.stdout + answer.stderr).strip())}")
    return found
