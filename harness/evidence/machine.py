"""What of the machine and the process can change the bits of a result, as a run keeps it."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from harness.environment import describe

VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"),
    *("NPY_DISABLE_CPU_FEATURES", "CUDA_VISIBLE_DEVICES", "TRITON_INTERPRET", "PYTHONHASHSEED"),
)
"""Environment variables that choose code or its order of operations; nothing else of the environment is kept."""


def run_environment() -> dict[str, Any]:
    """`harness.environment.describe()`, the threads, the variables above, and how subnormal numbers are treated."""
    return {
        **describe(),
        "threads": threading.active_count(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "subnormals": subnormals(),
    }


def subnormals() -> dict[str, bool]:
    """Whether float32 arithmetic of this thread makes subnormal results zero, and whether it reads them as zero.

    A library that was built with fast-math can switch both on for the whole process while it is loaded.
    """
    smallest_normal = np.full(1, np.finfo(np.float32).tiny, np.float32)
    smallest = np.full(1, 1, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        flushed = bool((smallest_normal * np.float32(0.5))[0] == 0)
        read_as_zero = bool((smallest * np.float32(2.0**100))[0] == 0)
    return {"results_flushed_to_zero": flushed, "operands_read_as_zero": read_as_zero}
