"""Who else was running: the load average around a series, and from when on it says that the machine was not ours."""

from __future__ import annotations

import os

BUSY_SHARE = 0.25
"""Others may keep this share of the cores busy. What a memory-bound series loses to them is within its noise."""


def load_average() -> float | None:
    """Processes running or waiting, averaged over the last minute; None where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy(before: float | None, after: float | None, threads: int, count: int) -> str | None:
    """Why a series between two load averages was not alone; None when it was, as far as they show.

    The series itself counts for `threads`. The average is that of a minute, so that what ran shortly before it counts.
    """
    seen = max((value for value in (before, after) if value is not None), default=None)
    if seen is None:
        return "the system gives no load average: nothing shows that the series was alone"
    others = seen - threads
    if others <= BUSY_SHARE * count:
        return None
    return f"others kept {others:.1f} of {count} cores busy (load average {seen:.2f}, of which the series is {threads})"
