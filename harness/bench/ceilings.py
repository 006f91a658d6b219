"""What the machine can do at best, measured: the bandwidth of a copy, and the frequency of the cycle counter."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

COPIED = 256 << 20
"""Bytes copied at a time: larger than any cache, so that memory is what is measured."""
COPIES = 7


def copy_gbps() -> float:
    """The best of a few copies of 256 MiB by one thread: bytes read and written, in 1e9 a second."""
    source = np.ones(COPIED, np.uint8)
    target = np.zeros_like(source)
    best = float("inf")
    for _ in range(COPIES):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return 2 * COPIED / best / 1e9


def counter_ghz() -> float | None:
    """The frequency at which the x86-64 time-stamp counter counts, in GHz; None where Linux does not tell.

    Linux prints twice the counter's frequency in MHz as "bogomips" where the counter is constant.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "constant_tsc" not in fields.get("flags", "").split():
        return None
    try:
        return float(fields["bogomips"]) / 2000
    except (KeyError, ValueError):
        return None
