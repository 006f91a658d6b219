"""Opinions: what the pinned oracles say, and who they are as evidence keeps it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import __version__
from harness.evidence.record import Judge
from harness.plugin.judging import Opinion
from oracles.pool import Oracle, Pool, pins_for


def judge_of(oracle: Oracle) -> Judge:
    """An oracle as evidence names it. Whether its answers came from the memo is settled at the verdict."""
    pin: Mapping[str, Any] = oracle.pin
    return Judge(live=True, **{name: pin[name] for name in Judge.model_fields if name != "live"})


def own_judge(name: str, sources: Iterable[Path]) -> Judge:
    """A judge of our own (a formula, answers derived by hand), pinned by the digest of its sources."""
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return Judge(
        pin=name,
        package="quant-oracle-harness",
        version=__version__,
        wheel_sha256="",
        worker_sha256=digest.hexdigest(),
        live=True,
    )


def able(pool: Pool, engine: str, level: str, op: str, encoding: str) -> list[Oracle]:
    """Every oracle that judges `level` for an engine and has the op for the encoding: the engine's own first."""
    oracles = [pool.get(name) for name in pins_for(engine, level)]
    return [oracle for oracle in oracles if oracle.supports(op, encoding)]


def decoded_by(
    oracles: Iterable[Oracle], encoding: str, data: npt.NDArray[np.uint8], shape: tuple[int, ...]
) -> list[Opinion]:
    """Each oracle's decode of `data` uint8 [n_bytes] to float32 [shape]. Raises ProviderError."""
    return [
        Opinion(judge_of(oracle), oracle.dequantize(encoding, data, shape).arrays["values"])
        for oracle in oracles
    ]
