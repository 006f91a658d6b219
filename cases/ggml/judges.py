"""Who judges the encodings of GGUF files, and what our kernels for them are called in evidence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from harness.plugin.opinions import able
from kernels.units import Unit
from oracles.pool import Oracle, Pool

ENGINE, LEVEL = "llama_cpp", "tensors"

Upstream = Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32]], bool]
"""Whether an upstream test would be content with a result, given the exact one."""


def decoders(pool: Pool, encoding: str) -> list[Oracle]:
    """Every oracle that decodes the encoding; llama.cpp first, whose format it is."""
    return able(pool, ENGINE, LEVEL, "dequantize", encoding)


def kernel_of(unit: Unit, function: str) -> str:
    """Our numpy reference by its file and function."""
    return f"kernels/{unit.dialect}/{unit.name}/reference.py:{function}"
