"""vllm-gguf-plugin's tests on our Triton and CUDA kernels: its bounds stand beside ours, which decide."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from cases.ggml import on_device
from cases.ggml.gguf_plugin import (
    ALONE,
    BATCHING_CUDA,
    BATCHING_TRITON,
    DEQUANTIZE,
    INTERPRETED_ROWS,
    MMQ_CUDA,
    MMQ_TRITON,
    MMVQ_CUDA,
    MMVQ_TRITON,
    ROWS,
    number,
    rounded,
    sample,
    uniform,
    upstream_of,
)
from cases.ggml.judges import ENGINE, LEVEL, decoders
from cases.ggml.on_device import Place, Weights
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import decoded_by
from harness.plugin.verdict import CaseVerdict
from kernels.units import unit
from oracles.pool import Pool, pins_for

WeightsOf = Callable[[str, int], Weights]

place = pytest.fixture(on_device.place_of, name="place")


@pytest.fixture(scope="module")
def weights_of(oracle_pool: Pool) -> WeightsOf:
    """Weights by encoding and width, which the engine quantizes once; the last two: both widths of an encoding."""
    engine = oracle_pool.get(pins_for(ENGINE, LEVEL)[0])
    rows = INTERPRETED_ROWS if on_device.interprets() else ROWS

    @functools.lru_cache(maxsize=2)
    def make(encoding: str, hidden: int) -> Weights:
        return Weights(unit(encoding), sample(engine, encoding, rows, hidden), (rows, hidden), oracle_pool)

    return make


@pytest.mark.cases(DEQUANTIZE)
def test_a_decode_is_wrong_for_weights_that_the_engine_quantized(
    case: Case, verdict: CaseVerdict, place: Place, weights_of: WeightsOf, oracle_pool: Pool
) -> None:
    found, dtype = unit(case.encoding or ""), case.axis("dtype")
    blocks = weights_of(found.encoding, number(case, "hidden")).data.reshape(-1, found.block_bytes)
    values, kernel = on_device.decode_on(place, found, blocks, dtype)
    opinions = decoded_by(
        decoders(oracle_pool, found.encoding), found.encoding, blocks.reshape(-1), values.shape
    )
    narrow = [Opinion(opinion.judge, rounded(opinion.values, dtype)) for opinion in opinions]
    verdict(
        values,
        narrow,
        kernel=kernel,
        device=place.device,
        block_elems=found.block_elems,
        name=place.subject,
        upstream_bound_holds=upstream_of("test_dequantize", dtype)(values, opinions[0].values),
    )


@pytest.mark.cases(MMVQ_TRITON, MMVQ_CUDA, MMQ_TRITON, MMQ_CUDA)
def test_a_product_is_wrong_for_weights_that_the_engine_quantized(
    case: Case, verdict: CaseVerdict, place: Place, weights_of: WeightsOf
) -> None:
    one = case.family in (MMVQ_TRITON.name, MMVQ_CUDA.name)
    hidden, dtype = number(case, "hidden"), case.axis("dtype")
    w = weights_of(case.encoding or "", hidden)
    drawn = uniform(1 if one else number(case, "tokens"), hidden, dtype, case.seed)
    x = on_device.on_place(place, drawn, dtype)
    product = on_device.multiply(place, w.encoding, x, w.tensor(place), w.shape)
    upstream = upstream_of("test_mmvq" if one else "test_mmq", dtype)
    on_device.judge_product(case, place, product, w, verdict, upstream)


@pytest.mark.cases(BATCHING_TRITON, BATCHING_CUDA)
def test_a_sequence_has_other_bits_elsewhere_in_a_batch(
    case: Case, verdict: CaseVerdict, place: Place, weights_of: WeightsOf
) -> None:
    import torch

    batch, tokens, hidden = (number(case, axis) for axis in ("batch", "tokens", "hidden"))
    dtype, w = case.axis("dtype"), weights_of(case.encoding or "", hidden)
    x = on_device.on_place(place, uniform(batch * tokens, hidden, dtype, case.seed), dtype)
    data = w.tensor(place)
    product = on_device.multiply(place, w.encoding, x, data, w.shape)
    # The batch with its last sequence first.
    moved = on_device.multiply(place, w.encoding, torch.roll(x, tokens, 0), data, w.shape)
    assert moved.values.equal(torch.roll(product.values, tokens, 0)), (
        "the bits depend on the place in the batch"
    )
    if place.backend in ALONE:
        alone = on_device.multiply(place, w.encoding, x[-tokens:], data, w.shape)
        assert alone.values.equal(product.values[-tokens:]), "the last sequence has other bits alone"
    upstream = upstream_of("test_mmq_batching", dtype)
    on_device.judge_product(case, place, product, w, verdict, upstream)
