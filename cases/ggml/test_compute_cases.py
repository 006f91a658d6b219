"""Our product of quantized operands on the cpu, against the engine's dot products and the exact product in float64."""

from __future__ import annotations

import numpy as np
import pytest

from cases.ggml import on_cpu
from cases.ggml.compute import OPERANDS, ROWS_OF_W, ROWS_OF_X, VALUES, gaussian, width
from harness.evidence.case import Case
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels.units import unit
from oracles.pool import Oracle, Pool


@pytest.fixture
def engine(oracle_pool: Pool) -> Oracle:
    return on_cpu.engine_of(oracle_pool)


@pytest.mark.cases(ROWS_OF_X)
def test_a_product_is_wrong_for_some_number_of_activation_rows(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle
) -> None:
    found, m = unit(case.encoding or ""), int(case.axis("m")[1:])
    x, blocks = gaussian(found, m, 5, width(found, case.axis("width")), np.random.default_rng(case.seed))
    on_cpu.judge_product(case, found, x, blocks, 5, verdict, guarded, engine)


@pytest.mark.cases(ROWS_OF_W)
def test_a_product_is_wrong_for_some_number_of_weight_rows(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle
) -> None:
    found, n = unit(case.encoding or ""), int(case.axis("n")[1:])
    x, blocks = gaussian(found, 2, n, width(found, case.axis("width")), np.random.default_rng(case.seed))
    on_cpu.judge_product(case, found, x, blocks, n, verdict, guarded, engine)


@pytest.mark.cases(OPERANDS)
def test_a_product_is_wrong_for_operands_that_are_out_of_the_ordinary(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle
) -> None:
    found = unit(case.encoding or "")
    k = width(found, "three_blocks")
    x, blocks = VALUES[case.axis("values")][0](found, 3, 40, k, np.random.default_rng(case.seed))
    on_cpu.judge_product(case, found, x, blocks, 40, verdict, guarded, engine)
