"""How a product of quantized operands runs on the cpu, and how it is judged: by the engine's dot products, and in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from cases.generators import Blocks
from cases.ggml.judges import ENGINE, LEVEL, Upstream
from harness.comparison.bounds import Bound
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import judge_of, own_judge
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels import cpu_matmul, cpu_matmul_bound
from kernels.units import Unit
from oracles.pool import Oracle, Pool, pins_for


def engine_of(pool: Pool) -> Oracle:
    """llama.cpp, which quantizes the activations and multiplies."""
    return pool.get(pins_for(ENGINE, LEVEL)[0])


def judge_product(
    case: Case,
    found: Unit,
    x: npt.NDArray[np.float32],
    blocks: Blocks,
    n: int,
    verdict: CaseVerdict,
    guarded: Guarded,
    engine: Oracle,
    upstream: Upstream | None = None,
) -> None:
    """Multiply on both sides from the same encoded activations, which are the engine's own, and ours must equal them.

    x [m, k] and blocks uint8 [n * blocks of a row, block_bytes].
    """
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
        upstream_bound_holds=upstream(product, exact) if upstream is not None else None,
    )


def _without_idle_sums(partner: Unit, rows: Blocks) -> Blocks:
    """Blocks without the sums of those that are zero: the engine leaves what stood there, and multiplies it by zero."""
    blocks = rows.reshape(-1, partner.block_bytes).copy()
    for field in partner.fields:
        if field.role == "sum":
            idle = ~blocks[:, : partner.fields[0].bytes].any(axis=1)
            blocks[idle, field.offset : field.offset + field.bytes] = 0
    return blocks
