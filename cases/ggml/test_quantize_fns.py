"""Ported from llama.cpp's test-quantize-fns: its three checks and its float32 product, upstream's bound beside ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cases.ggml.family import present
from cases.ggml.judges import decoders, kernel_of
from cases.ggml.quantize_fns import (
    ABSOLUTE,
    DOT,
    F32_BOUND,
    F32_DOT,
    FLOAT32_ROUNDOFF,
    IN_UPSTREAM,
    NEEDS_IMPORTANCE,
    REFERENCE,
    SECOND_QUANTIZER,
    SIZE,
    WEIGHTS,
    activation_of,
    dot_bound,
    holds,
    upstream_data,
    upstream_dot_error,
    upstream_rmse,
)
from harness.comparison.bounds import Bound, dot_product_bound
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import decoded_by, judge_of
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels.provider import dequantize
from kernels.units import load_units, unit
from oracles.pool import Oracle, Pool

Bytes = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def engine(oracle_pool: Pool) -> Oracle:
    """llama.cpp: quantizers and products."""
    return oracle_pool.get("llama_cpp.ops")


def quantized(engine: Oracle, encoding: str, values: npt.NDArray[np.float32]) -> Bytes:
    """The engine's reference quantizer on one row: uint8 [n_bytes]."""
    arrays: dict[str, npt.NDArray[Any]] = {"values": values.reshape(1, -1)}
    if encoding in NEEDS_IMPORTANCE:
        arrays["imatrix"] = np.ones(values.size, np.float32)
    return engine.call("quantize", {"encoding": encoding}, arrays).arrays["data"]


def quantized_activation(engine: Oracle, weights: str, values: npt.NDArray[np.float32]) -> Bytes:
    """The CPU backend's quantizer of the other operand of a product with `weights`: uint8 [n_bytes]."""
    answer = engine.call("quantize_activation", {"encoding": weights}, {"values": values.reshape(1, -1)})
    return answer.arrays["data"].reshape(-1)


@pytest.mark.cases(ABSOLUTE)
def test_decode_of_quantized_data_is_wrong_within_upstreams_total_error(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle, oracle_pool: Pool
) -> None:
    found = unit(case.encoding or "")
    data = upstream_data(0)
    encoded = quantized(engine, found.encoding, data)
    values = dequantize(found.encoding, encoded, (SIZE,), out=guarded.output(np.float32, (SIZE,)))
    verdict(
        values,
        decoded_by(decoders(oracle_pool, found.encoding), found.encoding, encoded, (SIZE,)),
        kernel=kernel_of(found, "decode"),
        block_elems=found.block_elems,
        upstream_bound_holds=holds("total_error", found.encoding, upstream_rmse(data, values)),
    )


@pytest.mark.cases(REFERENCE)
def test_decode_of_the_fast_quantizers_bytes_is_wrong_within_upstreams_reference_error(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engine: Oracle, oracle_pool: Pool
) -> None:
    found = unit(case.encoding or "")
    data = upstream_data(0)
    fast = quantized_activation(engine, SECOND_QUANTIZER[found.encoding], data)
    values = dequantize(found.encoding, fast, (SIZE,), out=guarded.output(np.float32, (SIZE,)))
    reference = dequantize(found.encoding, quantized(engine, found.encoding, data), (SIZE,))
    verdict(
        values,
        decoded_by(decoders(oracle_pool, found.encoding), found.encoding, fast, (SIZE,)),
        kernel=kernel_of(found, "decode"),
        block_elems=found.block_elems,
        upstream_bound_holds=holds("reference_error", found.encoding, upstream_rmse(values, reference)),
    )


@pytest.mark.cases(DOT)
def test_decoded_operands_do_not_give_the_engines_product(
    case: Case, verdict: CaseVerdict, engine: Oracle
) -> None:
    found, other = unit(case.encoding or ""), activation_of(case.encoding or "")
    data, activations = upstream_data(0), upstream_data(1)
    x, y = quantized(engine, found.encoding, data), quantized_activation(engine, found.encoding, activations)
    product = _product(dequantize(found.encoding, x, (SIZE,)), dequantize(other.encoding, y, (SIZE,)))
    verdict(
        product,
        [Opinion(judge_of(engine), _engines_product(engine, found.encoding, x, y, SIZE))],
        bound=dot_bound(found, x, other, y),
        kernel=f"{kernel_of(found, 'decode')} and {kernel_of(other, 'decode')}, float64 product",
        upstream_bound_holds=holds(
            "dot_error", found.encoding, upstream_dot_error(float(product[0, 0]), data, activations)
        ),
    )


@pytest.mark.cases(F32_DOT)
def test_the_engines_float32_product_loses_a_tail(case: Case, verdict: CaseVerdict, engine: Oracle) -> None:
    n = int(case.axis("n"))
    a, b = upstream_data(0, n), upstream_data(1, n)
    product = _product(
        dequantize("ggml.f32", a.view(np.uint8), (n,)), dequantize("ggml.f32", b.view(np.uint8), (n,))
    )
    # One rounding more than the engine makes: that of our product to float32.
    limit = dot_product_bound(
        n + 1, np.abs(a).astype(np.float64) @ np.abs(b), FLOAT32_ROUNDOFF, 1e-4 * n
    ).limit
    engines = _engines_product(engine, "ggml.f32", a.view(np.uint8), b.view(np.uint8), n)
    error = abs(float(engines[0, 0]) - float(product[0, 0])) / n
    verdict(
        product,
        [Opinion(judge_of(engine), engines)],
        bound=Bound(limit, F32_BOUND, 1e-4 * n),
        kernel=f"{kernel_of(unit('ggml.f32'), 'decode')}, float64 product",
        upstream_bound_holds=error < 1e-4,
    )


def _product(w: npt.NDArray[np.float32], v: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The product of two decoded rows in float64, rounded once: float32 [1, 1]."""
    return np.array([[w.astype(np.float64) @ v.astype(np.float64)]], np.float64).astype(np.float32)


def _engines_product(engine: Oracle, encoding: str, x: Bytes, y: Bytes, n: int) -> npt.NDArray[np.float32]:
    answer = engine.call(
        "vec_dot", {"encoding": encoding, "n": n}, {"x": x.reshape(1, -1), "y": y.reshape(1, -1)}
    )
    return answer.arrays["values"]


def test_upstream_tests_a_type_that_we_do_not() -> None:
    assert set(WEIGHTS) >= set(present(IN_UPSTREAM))


def test_the_engine_quantizes_a_type_that_we_leave_out(engine: Oracle) -> None:
    assert set(WEIGHTS) | {"ggml.f32"} == set(engine.ops["quantize"]) & set(load_units())


@pytest.mark.parametrize("encoding", sorted(IN_UPSTREAM))
def test_upstreams_own_statistics_fail_on_upstreams_own_data(encoding: str, engine: Oracle) -> None:
    data, activations = upstream_data(0), upstream_data(1)
    x, y = quantized(engine, encoding, data), quantized_activation(engine, encoding, activations)
    total = upstream_rmse(data, dequantize(encoding, x, (SIZE,)))
    dot = upstream_dot_error(float(_engines_product(engine, encoding, x, y, SIZE)[0, 0]), data, activations)
    assert holds("total_error", encoding, total), total
    assert holds("dot_error", encoding, dot), dot
