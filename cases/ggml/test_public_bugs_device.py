"""The conditions of public bugs on Triton and CUDA. That they bite: tests/test_public_bugs_bite.py."""

from __future__ import annotations

import numpy as np
import pytest

from cases.ggml import on_device
from cases.ggml.judges import decoders
from cases.ggml.on_device import Place, Weights
from cases.ggml.public_bugs import DECODE, DECODES, ON_CUDA, PRODUCTS, TRITON
from harness.evidence.case import Case
from harness.plugin.opinions import decoded_by
from harness.plugin.verdict import CaseVerdict
from kernels.units import unit
from oracles.pool import Pool

place = pytest.fixture(on_device.place_of, name="place")


@pytest.mark.cases(DECODE)
def test_a_decode_has_a_public_bug(case: Case, verdict: CaseVerdict, place: Place, oracle_pool: Pool) -> None:
    found = unit(case.encoding or "")
    blocks = DECODES[case.axis("bug")](found, np.random.default_rng(case.seed))
    values, kernel = on_device.decode_on(place, found, blocks)
    verdict(
        values,
        decoded_by(decoders(oracle_pool, found.encoding), found.encoding, blocks.reshape(-1), values.shape),
        kernel=kernel,
        device=place.device,
        block_elems=found.block_elems,
        name=place.subject,
    )


@pytest.mark.cases(TRITON, ON_CUDA)
def test_a_product_has_a_public_bug(
    case: Case, verdict: CaseVerdict, place: Place, oracle_pool: Pool
) -> None:
    found = unit(case.encoding or "")
    drawn = PRODUCTS[case.axis("bug")](found, np.random.default_rng(case.seed))
    weights = Weights(found, drawn.blocks, (drawn.n, drawn.x.shape[1]), oracle_pool)
    x, data = on_device.on_place(place, drawn.x, drawn.dtype), weights.tensor(place)
    first, *others = (
        on_device.multiply(place, found.encoding, x, data, weights.shape) for _ in range(drawn.runs)
    )
    on_device.judge_product(case, place, first, weights, verdict, again=[run.values for run in others])
