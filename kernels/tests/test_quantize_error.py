"""How well the encodings with a table are found: the error of what our bytes decode to, against the engine's bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from harness.errors import UsageProblem
from kernels.provider import dequantize
from kernels.quantizer import NEEDS_IMPORTANCE, offered, quantize
from kernels.tests.quantize_rows import COLUMNS, importances, kinds, not_finite
from kernels.tests.test_quantize_bits import TABLES, by_engine, rows_for
from oracles.pool import Oracle, Pool, ProviderError

SEARCHED = tuple(name for name in offered()["quantize"] if name.startswith("ggml.iq"))
AT_MOST = 1.01
"""Times the engine's error, over the rows of one kind."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Oracle]:
    with Pool() as pool:
        yield pool.get("llama_cpp.ops")


def error(encoding: str, data: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> float:
    """sum w (x - y)^2 over all rows, in float64, of what `data` decodes to."""
    decoded = dequantize(encoding, data.reshape(-1), values.shape)
    gap = values.astype(np.float64) - decoded
    return float((gap * gap * (1 if weights is None else weights)).sum())


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("encoding", SEARCHED)
def test_a_search_ends_further_from_the_weights_than_the_engines(
    engine: Oracle, encoding: str, weighted: bool
) -> None:
    weights = importances()["spread"] if weighted else None
    if encoding in NEEDS_IMPORTANCE and not weighted:
        with pytest.raises(UsageProblem, match="with an importance matrix only"):
            quantize(encoding, np.zeros((1, 256), np.float32))
        return
    for name, values in rows_for(encoding).items():
        ours = error(encoding, quantize(encoding, values, weights), values, weights)
        engines = error(encoding, by_engine(engine, encoding, values, weights), values, weights)
        assert ours <= AT_MOST * engines, name


def test_a_sub_block_of_zeros_misplaces_what_follows(engine: Oracle) -> None:
    """The engine's IQ3_S does not leave room for a sub-block of zeros: the rows and signs after it land too early."""
    values = kinds()["gaussian"].copy()
    values[:, 64:96] = 0
    ours = quantize("ggml.iq3_s", values)
    engines = by_engine(engine, "ggml.iq3_s", values)
    assert error("ggml.iq3_s", ours, values, None) < 0.05 * (values.astype(np.float64) ** 2).sum()
    assert error("ggml.iq3_s", engines, values, None) > 0.2 * (values.astype(np.float64) ** 2).sum()
    # The second super-block of a row is the same; so are the first one's scales, high bits, and what comes before.
    ours, engines = (data.reshape(-1, 2, 110) for data in (ours, engines))
    np.testing.assert_array_equal(ours[:, 1], engines[:, 1])
    for field in (slice(0, 2 + 16), slice(66, 74), slice(74, 74 + 8), slice(106, 110)):
        np.testing.assert_array_equal(ours[:, 0, field], engines[:, 0, field])


@pytest.mark.parametrize("encoding", TABLES)
def test_values_without_a_finite_error_are_encoded_as_something(encoding: str) -> None:
    weights = np.ones(COLUMNS, np.float32)
    for values in (not_finite(), kinds()["huge"]):
        if encoding.startswith("ggml.iq1") and np.isfinite(values).all():
            continue  # a block whose sums overflow has no candidate: it is stored as zeros, as the engine does
        with pytest.raises(UsageProblem, match=rf"quantize {encoding}: values: got numbers"):
            quantize(encoding, values, weights)


def test_the_engine_lives_on_after_values_without_a_finite_error(engine: Oracle) -> None:
    with pytest.raises(ProviderError, match="died"):
        by_engine(engine, "ggml.iq3_xxs", kinds()["huge"])
