"""Ported from llama.cpp's test-quantize-stats: our quantizers lose what the engine's lose, on layers of a real model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cases.ggml.quantize_fns import IN_UPSTREAM, NEEDS_IMPORTANCE
from cases.ggml.quantize_stats import BUCKETS, NAMES, RANGE, ROW, STATS, layer, quantile, statistics
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import judge_of
from harness.plugin.verdict import CaseVerdict
from kernels.provider import dequantize
from kernels.quantizer import quantize
from kernels.units import unit
from oracles.pool import Oracle, Pool


@pytest.fixture(scope="module")
def engine(oracle_pool: Pool) -> Oracle:
    """llama.cpp: quantizers and decoders."""
    return oracle_pool.get("llama_cpp.ops")


def engines_round_trip(
    engine: Oracle, encoding: str, arrays: dict[str, npt.NDArray[Any]]
) -> npt.NDArray[np.float32]:
    data = engine.call("quantize", {"encoding": encoding}, arrays).arrays["data"]
    return engine.dequantize(encoding, data, arrays["values"].shape).arrays["values"]


@pytest.mark.cases(STATS)
def test_a_round_trip_loses_more_than_the_engines(case: Case, verdict: CaseVerdict, engine: Oracle) -> None:
    found = unit(case.encoding or "")
    values = layer(case.axis("layer"))
    imatrix = np.ones(ROW, np.float32) if found.encoding in NEEDS_IMPORTANCE else None
    ours = dequantize(found.encoding, quantize(found.encoding, values, imatrix), values.shape)
    arrays = {"values": values} if imatrix is None else {"values": values, "imatrix": imatrix}
    theirs = engines_round_trip(engine, found.encoding, arrays)
    verdict(
        statistics(values, ours),
        [Opinion(judge_of(engine), statistics(values, theirs))],
        kernel=f"kernels/{found.dialect}/{found.name}/quantize.py:encode",
    )


def test_upstream_prints_a_type_that_we_do_not() -> None:
    assert set(STATS.encodings) >= IN_UPSTREAM


def test_a_layer_is_not_a_real_one() -> None:
    for name in STATS.axes["layer"]:
        values = layer(name)
        assert values.shape[1] == ROW
        assert values.std() > 0.01
        assert np.unique(values).size > 1000


def test_the_statistics_differ_from_those_derived_by_hand() -> None:
    # Errors 0 (twice), 1e-4, 3e-4 and 1: buckets of 2e-4 width, so 3 in the first, 1 in the second, 1 in the last.
    values = np.array([0.0, 2.0, 1e-4, 3e-4, 1.0], np.float32)
    found = statistics(values, np.array([0.0, 2.0, 0.0, 0.0, 0.0], np.float32))
    rmse, largest, high, median = found[: len(NAMES)]
    assert rmse == pytest.approx(np.sqrt((1e-8 + 9e-8 + 1) / 5))
    assert (largest, high, median) == (1.0, pytest.approx(RANGE), pytest.approx(RANGE / BUCKETS))
    histogram = found[len(NAMES) :]
    assert histogram.size == BUCKETS
    assert (histogram[0], histogram[1], histogram[-1], histogram.sum()) == (3, 1, 1, 5)


def test_a_quantile_is_that_of_the_bucket_before() -> None:
    counts = np.zeros(BUCKETS)
    counts[[0, 9]] = 94, 6
    assert quantile(counts, 0.95) == pytest.approx(10 * RANGE / BUCKETS)
    assert quantile(counts, 0.94) == pytest.approx(RANGE / BUCKETS)


def test_a_scale_that_is_one_percent_off_leaves_the_statistics_alone(engine: Oracle) -> None:
    values = layer(STATS.axes["layer"][0])
    right = engines_round_trip(engine, "ggml.q8_0", {"values": values})
    assert not np.array_equal(statistics(values, right), statistics(values, right * np.float32(1.01)))
