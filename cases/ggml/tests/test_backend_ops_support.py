"""Which lines of upstream's list the pinned engine's CPU backend takes, against what the list says of an older one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import pytest

from cases.ggml import backend_ops_tensors
from cases.ggml import test_backend_ops_cases as cases
from cases.ggml.backend_ops import FAMILIES, line_of
from cases.ggml.backend_ops_tensors import Bytes, Drawn, Tensor
from cases.ggml.tests.test_backend_ops_faults import TESTS
from cases.upstream.backend_ops import BackendOpCase
from harness.plugin.verdict import Guarded, State
from kernels.cpu_views import block_of
from oracles.pool import Oracle, Pool

LARGE = 1 << 24
"""Bytes of operands beyond which a line is not asked about: twenty lines, whose types are those of others."""


class Answered(Exception):
    """The engine was asked; nothing else of the case is of interest."""


def zeros(_engine: Oracle, key: Drawn) -> Bytes:
    elems, size = block_of(key[0])
    return np.zeros(key[1] // elems * size, np.uint8)


@pytest.fixture(scope="module")
def engine(oracle_pool: Pool) -> Oracle:
    return oracle_pool.get("llama_cpp.ops")


def test_the_engine_takes_other_lines_than_the_documentation_says(
    engine: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [case for family in FAMILIES for case in family.cases()]
    asked: list[tuple[BackendOpCase, bool]] = []

    def ask(_: Oracle, op: str, tensors: Sequence[Tensor], n_bytes: int) -> NoReturn:
        if sum(tensor.memory.nbytes for tensor in tensors) <= LARGE:
            taken = backend_ops_tensors.run(engine, op, tensors, n_bytes) is not None
            asked.append((line, taken))
        raise Answered

    monkeypatch.setattr(backend_ops_tensors, "drawn", zeros)
    monkeypatch.setattr(cases, "run", ask)
    backend_ops_tensors._shared.cache_clear()
    try:
        for case in every:
            line = line_of(case)
            op = line.op.lower()
            arguments: dict[str, Any] = {
                "case": case,
                "line": line,
                "engine": engine,
                "verdict": None,
            }
            if op in ("set_rows", "cpy"):
                arguments["guarded"] = Guarded(State())
            with pytest.raises(Answered):
                TESTS[op](**arguments)
    finally:
        backend_ops_tensors._shared.cache_clear()
    assert len(asked) == len(every) - 20
    newer = {line.id for line, taken in asked if taken and not line.cpu_supported}
    assert not {line.id for line, taken in asked if line.cpu_supported and not taken}
    # Outer products of half-precision weights that are not shared came after the list was made.
    assert len(newer) == 16
    assert all("OUT_PROD(type_a=f16,type_b=f32" in name and "nr=[1,1]" in name for name in newer)
