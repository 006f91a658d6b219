"""The GPU lock: one `flock(2)` file that timed series hold alone and correctness work shares, device by device.

`with gpu_lock("timed", timeout=60) as held:` and, before and after each arm, `held.check()`. The rules are in
docs/gpu-lock.md.
"""

from __future__ import annotations

from harness.lock.acquire import Held, Kind, cpu_lock, gpu_lock
from harness.lock.announce import announcer
from harness.lock.holder import Holder
from harness.lock.paths import canonical_uuid, cpu_lock_path, device_path, lock_path

__all__ = [
    "Held",
    "Holder",
    "Kind",
    "announcer",
    "canonical_uuid",
    "cpu_lock",
    "cpu_lock_path",
    "device_path",
    "gpu_lock",
    "lock_path",
]
