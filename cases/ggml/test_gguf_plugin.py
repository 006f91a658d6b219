"""vllm-gguf-plugin's tests on our numpy kernels: its bounds stand beside ours, which decide."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from cases.generators import Blocks
from cases.ggml import on_cpu
from cases.ggml.gguf_plugin import (
    BATCHING_CPU,
    DEQUANTIZE_CPU,
    MMQ_CPU,
    MMVQ_CPU,
    ROWS,
    number,
    rounded,
    sample,
    uniform,
    upstream_of,
)
from cases.ggml.judges import decoders, kernel_of
from harness.evidence.case import Case
from harness.plugin.opinions import decoded_by
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels import cpu_matmul
from kernels.provider import dequantize
from kernels.units import unit
from oracles.pool import Oracle, Pool

Samples = Callable[[str, int], Blocks]


@pytest.fixture(scope="module")
def engine(oracle_pool: Pool) -> Oracle:
    return on_cpu.engine_of(oracle_pool)


@pytest.fixture(scope="module")
def samples(engine: Oracle) -> Samples:
    """Weights by encoding and width, which the engine quantizes once."""
    return functools.cache(lambda encoding, hidden: sample(engine, encoding, ROWS, hidden))


@pytest.mark.cases(DEQUANTIZE_CPU)
def test_a_decode_is_wrong_for_weights_that_the_engine_quantized(
    case: Case, verdict: CaseVerdict, guarded: Guarded, samples: Samples, oracle_pool: Pool
) -> None:
    found = unit(case.encoding or "")
    blocks = samples(found.encoding, number(case, "hidden"))
    data, shape = blocks.reshape(-1), (len(blocks), found.block_elems)
    values = dequantize(found.encoding, guarded.input(data), shape, out=guarded.output(np.float32, shape))
    opinions = decoded_by(decoders(oracle_pool, found.encoding), found.encoding, data, shape)
    verdict(
        values,
        opinions,
        kernel=kernel_of(found, "decode"),
        block_elems=found.block_elems,
        upstream_bound_holds=upstream_of("test_dequantize", "float32")(values, opinions[0].values),
    )


def judged(
    case: Case,
    x: npt.NDArray[np.float32],
    test: str,
    verdict: CaseVerdict,
    guarded: Guarded,
    engine: Oracle,
    samples: Samples,
) -> None:
    found = unit(case.encoding or "")
    blocks = samples(found.encoding, number(case, "hidden"))
    upstream = upstream_of(test, case.axis("dtype"))
    on_cpu.judge_product(case, found, x, blocks, ROWS, verdict, guarded, engine, upstream)


@pytest.mark.cases(MMVQ_CPU, MMQ_CPU)
def test_a_product_is_wrong_for_weights_that_the_engine_quantized(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle, samples: Samples
) -> None:
    tokens = number(case, "tokens") if case.family == MMQ_CPU.name else 1
    x = uniform(tokens, number(case, "hidden"), case.axis("dtype"), case.seed)
    judged(case, x, "test_mmq" if tokens > 1 else "test_mmvq", verdict, guarded, engine, samples)


@pytest.mark.cases(BATCHING_CPU)
def test_a_sequence_has_other_bits_in_a_batch_than_alone(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle, samples: Samples
) -> None:
    batch, tokens, hidden = (number(case, axis) for axis in ("batch", "tokens", "hidden"))
    x = uniform(batch * tokens, hidden, case.axis("dtype"), case.seed)
    data, shape = samples(case.encoding or "", hidden).reshape(-1), (ROWS, hidden)
    whole = cpu_matmul.matmul(case.encoding or "", x, data, shape)
    alone = cpu_matmul.matmul(case.encoding or "", x[-tokens:], data, shape)
    assert alone.tobytes() == whole[-tokens:].tobytes(), "the last sequence has other bits alone"
    judged(case, x, "test_mmq_batching", verdict, guarded, engine, samples)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_narrow_value_is_not_the_nearest(dtype: str) -> None:
    spacing = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    values = np.float32(1 + spacing * np.array([0.5, 0.51, 1.5, 2.25]))
    assert rounded(values, dtype).tolist() == [1, 1 + spacing, 1 + 2 * spacing, 1 + 2 * spacing]


def test_upstreams_bound_lets_everything_pass() -> None:
    right = np.linspace(-4, 4, 64, dtype=np.float32).reshape(2, 32)
    wrong = right.copy()
    wrong[1, 7] += 8
    assert upstream_of("test_mmvq", "float16")(right, right)
    assert not upstream_of("test_mmvq", "float16")(wrong, right)
