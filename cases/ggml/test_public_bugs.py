"""The conditions of public bugs on the cpu. That they bite: tests/test_public_bugs_bite.py."""

from __future__ import annotations

import numpy as np
import pytest

from cases.ggml import on_cpu
from cases.ggml.judges import decoders, kernel_of
from cases.ggml.public_bugs import CPU, DECODE_CPU, DECODES, PRODUCTS
from cases.ggml.same_bits import first_changed
from harness.evidence.case import Case
from harness.plugin.opinions import decoded_by
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels import cpu_matmul
from kernels.provider import dequantize
from kernels.units import unit
from oracles.pool import Oracle, Pool


@pytest.fixture
def engine(oracle_pool: Pool) -> Oracle:
    return on_cpu.engine_of(oracle_pool)


@pytest.mark.cases(DECODE_CPU)
def test_a_decode_has_a_public_bug(
    case: Case, verdict: CaseVerdict, guarded: Guarded, oracle_pool: Pool
) -> None:
    found = unit(case.encoding or "")
    blocks = DECODES[case.axis("bug")](found, np.random.default_rng(case.seed))
    data, shape = blocks.reshape(-1), (len(blocks), found.block_elems)
    values = dequantize(found.encoding, guarded.input(data), shape, out=guarded.output(np.float32, shape))
    opinions = decoded_by(decoders(oracle_pool, found.encoding), found.encoding, data, shape)
    verdict(values, opinions, kernel=kernel_of(found, "decode"), block_elems=found.block_elems)


@pytest.mark.cases(CPU)
def test_a_product_has_a_public_bug(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle
) -> None:
    found = unit(case.encoding or "")
    drawn = PRODUCTS[case.axis("bug")](found, np.random.default_rng(case.seed))
    data, shape = drawn.blocks.reshape(-1), (drawn.n, drawn.x.shape[1])
    runs = [cpu_matmul.matmul(found.encoding, drawn.x, data, shape) for _ in range(drawn.runs)]
    changed = first_changed(runs[0], runs[1:])
    assert changed is None, f"run {changed} on the same inputs gave other bits"
    on_cpu.judge_product(case, found, drawn.x, drawn.blocks, drawn.n, verdict, guarded, engine)
