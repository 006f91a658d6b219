"""Our product of quantized operands on the cpu, against the engine's dot products and the exact product in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases.generators import Blocks
from cases.ggml.compute import OPERANDS, ROWS_OF_W, ROWS_OF_X, VALUES, Activations, gaussian, width
from cases.ggml.judges import ENGINE, LEVEL
from harness.comparison.bounds import Bound
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import judge_of, own_judge
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels import cpu_matmul, cpu_matmul_bound
from kernels.units import Unit, unit
from oracles.pool import Oracle, Pool, pins_for


@pytest.fixture
def engine(oracle_pool: Pool) -> Oracle:
    """llama.cpp, which quantizes the activations and multiplies."""
    return oracle_pool.get(pins_for(ENGINE, LEVEL)[0])


def judged(
    case: Case,
    found: Unit,
    x: Activations,
    blocks: Blocks,
    n: int,
    verdict: CaseVerdict,
    guarded: Guarded,
    engine: Oracle,
) -> None:
    """Multiply on both sides from the same encoded activations, which are the engine's own, and ours must equal them."""
    m, k = x.shape
    data = guarded.input(blocks.reshape(-1))
    rows = cpu_matmul.encode_activations(found.encoding, x)
    wanted = engine.call("quantize_activation", {"encoding": found.encoding}, {"values": x}).arrays["data"]
    partner = cpu_matmul.partner_of(found.encoding)
    same = np.array_equal(_without_idle_sums(partner, rows), _without_idle_sums(partner, wanted))
    assert same, "the activations are not quantized as the engine does"
    product = cpu_matmul.multiply_quantized(found.encoding, rows, data, (n, k))
    request = {"encoding": found.encoding, "n": k}
    answer = engine.call("vec_dot", request, {"x": blocks.reshape(n, -1), "y": rows.reshape(m, -1)})
    engines = answer.arrays["values"].T
    bound = cpu_matmul_bound.judge(found.encoding, rows, data, (n, k))
    limit = np.broadcast_to(np.asarray(bound.against_engine.limit), product.shape).copy()
    with np.errstate(over="ignore"):
        exact = bound.exact.astype(np.float32)
    # Beyond the largest number, or with a scale that is none, only "not finite" is defined.
    open_to_order = ~bound.settled
    sides = [
        np.where(open_to_order, np.isfinite(side).astype(np.float32), side)
        for side in (product, engines, exact)
    ]
    limit[open_to_order] = 0.0
    formula = own_judge("float64_product", [Path(cpu_matmul_bound.__file__)])
    opinions = [Opinion(judge_of(engine), sides[1]), Opinion(formula, sides[2])]
    if open_to_order.any():
        opinions = opinions[:1]  # float64 does not overflow where single precision does
    verdict(
        sides[0],
        opinions,
        bound=Bound(limit, case.bound),
        kernel="kernels/cpu_matmul.py:multiply_quantized",
    )


def _without_idle_sums(partner: Unit, rows: Blocks) -> Blocks:
    """Blocks without the sums of those that are zero: the engine leaves what stood there, and multiplies it by zero."""
    blocks = rows.reshape(-1, partner.block_bytes).copy()
    for field in partner.fields:
        if field.role == "sum":
            idle = ~blocks[:, : partner.fields[0].bytes].any(axis=1)
            blocks[idle, field.offset : field.offset + field.bytes] = 0
    return blocks


@pytest.mark.cases(ROWS_OF_X)
def test_a_product_is_wrong_for_some_number_of_activation_rows(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle
) -> None:
    found, m = unit(case.encoding or ""), int(case.axis("m")[1:])
    x, blocks = gaussian(found, m, 5, width(found, case.axis("width")), np.random.default_rng(case.seed))
    judged(case, found, x, blocks, 5, verdict, guarded, engine)


@pytest.mark.cases(ROWS_OF_W)
def test_a_product_is_wrong_for_some_number_of_weight_rows(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle
) -> None:
    found, n = unit(case.encoding or ""), int(case.axis("n")[1:])
    x, blocks = gaussian(found, 2, n, width(found, case.axis("width")), np.random.default_rng(case.seed))
    judged(case, found, x, blocks, n, verdict, guarded, engine)


@pytest.mark.cases(OPERANDS)
def test_a_product_is_wrong_for_operands_that_are_out_of_the_ordinary(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle
) -> None:
    found = unit(case.encoding or "")
    k = width(found, "three_blocks")
    x, blocks = VALUES[case.axis("values")][0](found, 3, 40, k, np.random.default_rng(case.seed))
    judged(case, found, x, blocks, 40, verdict, guarded, engine)
