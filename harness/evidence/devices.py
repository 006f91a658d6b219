"""Which devices a backend accepts: the names under which devices report themselves, and what each of them is capable of.

A device's name in evidence is a word that a case wrote down. It has to be one that a real device has, and that device has
to be of the kind that the backend names.
"""

from __future__ import annotations

import re

CAPABILITIES = (
    (r"NVIDIA A100\b.*", 80),
    (r"NVIDIA (L4|L40|L40S)", 89),
    (r"NVIDIA GeForce RTX 40[5-9]0\b.*", 89),
    (r"NVIDIA (H100|H200|GH200)\b.*", 90),
    (r"NVIDIA (B200|GB200)\b.*", 100),
)
"""Device name as the driver gives it (a pattern for the whole name), and its compute capability as in `sm_NN`."""

_NO_DEVICE = re.compile(r"cpu|interpreter|shim|emulat|simulat", re.IGNORECASE)
_SM = re.compile(r"^(?:triton|cuda)@sm_(\d+)$")


def capability(device: str) -> int | None:
    """The compute capability of a device by its name, `90` for sm_90; None for a name that the table does not have."""
    return next((number for pattern, number in CAPABILITIES if re.fullmatch(pattern, device)), None)


def unfit(backend: str, device: str) -> str | None:
    """Why a verdict from `device` says nothing about `backend` (a real device's, not a stand-in's); None when it may."""
    if not device:
        return "named no device"
    if _NO_DEVICE.search(device):
        return f"ran on {device!r}, which is not a device"
    wanted = _SM.match(backend)
    if wanted is None:
        fits = backend == "metal@apple" and device.startswith("Apple ")
        return None if fits else f"ran on {device!r}"
    found = capability(device)
    if found is None:
        return f"ran on {device!r}, an unknown device: add it to the table in harness/evidence/devices.py"
    return None if found == int(wanted[1]) else f"ran on {device!r}, which is sm_{found}"
