"""Our Triton and CUDA kernels on a device, and Triton's under the interpreter, against products of the oracles' decodes."""

from __future__ import annotations

import numpy as np
import pytest

from cases.ggml import on_device
from cases.ggml.compute import width
from cases.ggml.decode import VALUES
from cases.ggml.device import (
    CUDA_DECODE,
    CUDA_MATMUL,
    INTERPRETED_DECODE,
    INTERPRETED_MATMUL,
    INTERPRETED_SHAPES,
    SHAPES,
    TRITON_DECODE,
    TRITON_MATMUL,
)
from cases.ggml.judges import decoders
from cases.ggml.on_device import INTERPRETER, Place, Weights, WeightsOf
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import decoded_by, own_judge
from harness.plugin.verdict import CaseVerdict
from kernels.provider import dequantize
from kernels.units import unit
from oracles.pool import Pool

DEVICE_BLOCKS, INTERPRETED_BLOCKS = 1 << 20, 2000
"""So many blocks of a decode case at most, evenly spread."""

place = pytest.fixture(on_device.place_of, name="place")


@pytest.mark.cases(TRITON_DECODE, CUDA_DECODE, INTERPRETED_DECODE)
def test_a_decode_differs_from_an_engine(
    case: Case, verdict: CaseVerdict, place: Place, oracle_pool: Pool
) -> None:
    found = unit(case.encoding or "")
    blocks = VALUES[case.axis("values")][0](found, np.random.default_rng(case.seed))
    most = INTERPRETED_BLOCKS if case.backend == INTERPRETER else DEVICE_BLOCKS
    blocks = np.ascontiguousarray(blocks[:: -(-len(blocks) // most)])
    values, kernel = on_device.decode_on(place, found, blocks)
    opinions = decoded_by(
        decoders(oracle_pool, found.encoding), found.encoding, blocks.reshape(-1), values.shape
    )
    if not opinions:
        # An encoding of activations that no engine decodes: the reference, which its formula judges.
        reference = own_judge("reference", [found.path / "reference.py"])
        opinions = [Opinion(reference, dequantize(found.encoding, blocks.reshape(-1), values.shape))]
    verdict(
        values,
        opinions,
        kernel=kernel,
        device=place.device,
        block_elems=found.block_elems,
        name=place.subject,
    )


@pytest.fixture(scope="module")
def weights_of(oracle_pool: Pool) -> WeightsOf:
    return on_device.weights_maker(oracle_pool)


@pytest.fixture
def weights(case: Case, weights_of: WeightsOf) -> Weights | None:
    """The weights of a case. Asked for before the place, so that nobody waits for a lock while they are made."""
    if on_device.no_device(case):
        return None
    if case.backend == INTERPRETER:
        n, blocks = INTERPRETED_SHAPES[case.axis("shape")]
        k = width(unit(case.encoding or ""), "one_block" if blocks == 1 else "three_blocks")
        return weights_of(case.encoding or "", n, k)
    return weights_of(case.encoding or "", *SHAPES[case.axis("shape")])


@pytest.mark.cases(TRITON_MATMUL, CUDA_MATMUL, INTERPRETED_MATMUL)
def test_a_product_is_wrong(case: Case, weights: Weights, place: Place, verdict: CaseVerdict) -> None:
    m, k = int(case.axis("m")[1:]), weights.shape[1]
    x = on_device.activations(place, m, k, case.axis("activations"), case.seed)
    product = on_device.multiply(place, weights.encoding, x, weights.tensor(place), weights.shape)
    on_device.judge_product(case, place, product, weights, verdict)
