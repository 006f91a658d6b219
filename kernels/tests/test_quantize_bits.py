"""Our quantizers give the bytes that the pinned engine gives; where they do not, what they decode to is no worse.

A test does all that it has to do with one encoding: the engine prepares the tables of some of them for seconds.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from kernels.provider import dequantize
from kernels.quantizer import NEEDS_IMPORTANCE, offered, quantize, quantize_activation
from kernels.tests.quantize_rows import BEYOND_A_TABLE, ROWS, importances, kinds, not_finite
from kernels.units import load_units, unit
from oracles.pool import Oracle, Pool

WEIGHTS, ACTIVATIONS = (
    tuple(name for name in offered()[op] if unit(name).dialect == "ggml")
    for op in ("quantize", "quantize_activation")
)
TABLES = tuple(name for name in WEIGHTS if "grid" in unit(name).tables)
NONLINEAR = tuple(name for name in WEIGHTS if name.startswith("ggml.iq"))

ON_X86 = platform.machine() in ("x86_64", "AMD64")
"""What an integer made of a NaN or of a too large number is, and which NaN an invalid operation gives, is the CPU's."""

ERROR_AT_MOST = 1.01
"""Times the engine's error, over the rows of one kind: the bound for the encodings whose search is free."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Oracle]:
    with Pool() as pool:
        yield pool.get("llama_cpp.ops")


def by_engine(engine: Oracle, encoding: str, values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    arrays = {"values": values} | ({} if weights is None else {"imatrix": weights})
    answer = engine.call("quantize", {"encoding": encoding}, arrays)
    return answer.arrays["data"].reshape(len(values), -1)


def rows_for(encoding: str) -> dict[str, np.ndarray]:
    """Kind -> rows; fewer for the encodings with a table, which are slow, and none that make the engine end."""
    if encoding not in TABLES:
        return kinds()
    return {name: values[: ROWS // 4] for name, values in kinds().items() if name not in BEYOND_A_TABLE}


def by_kind(rows: Mapping[str, np.ndarray], data: np.ndarray) -> dict[str, np.ndarray]:
    parts = np.split(data, np.cumsum([len(values) for values in rows.values()])[:-1])
    return dict(zip(rows, parts, strict=True))


def error(encoding: str, data: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> float:
    """sum w (x - y)^2 over all rows, in float64, of what `data` decodes to; not finite where a scale is not."""
    decoded = dequantize(encoding, data.reshape(-1), values.shape)
    gap = values.astype(np.float64) - decoded
    with np.errstate(invalid="ignore"):
        return float((gap * gap * (1 if weights is None else weights)).sum())


def with_a_zero_sub_block(values: np.ndarray) -> np.ndarray:
    """Which super-blocks [n] have 32 zeros in one of the places of a sub-block."""
    return ~values.reshape(-1, 8, 32).any(axis=2).all(axis=1)


@pytest.mark.parametrize("encoding", WEIGHTS)
def test_a_weight_gets_another_code_than_the_engine_gives_it(engine: Oracle, encoding: str) -> None:
    rows, found = rows_for(encoding), unit(encoding)
    values = np.concatenate(list(rows.values()))
    plain = {} if encoding in NEEDS_IMPORTANCE else {"none": None}
    for importance, weights in (plain | importances()).items():
        ours = quantize(encoding, values, weights).reshape(len(values), -1)
        engines = by_engine(engine, encoding, values, weights)
        same = (ours == engines).reshape(-1, found.block_bytes).all(axis=1)
        if encoding == "ggml.iq3_s":  # see the next test
            same |= with_a_zero_sub_block(values)
        different = by_kind(rows, ~same.reshape(len(values), -1).all(axis=1))
        assert not {name: int(part.sum()) for name, part in different.items() if part.any()}, importance
        if encoding in NONLINEAR:
            for name, data in by_kind(rows, ours).items():
                expected = error(encoding, by_kind(rows, engines)[name], rows[name], weights)
                if np.isfinite(expected):
                    assert error(encoding, data, rows[name], weights) <= ERROR_AT_MOST * expected, name


def test_a_sub_block_of_zeros_misplaces_what_follows(engine: Oracle) -> None:
    """The engine's IQ3_S does not leave room for a sub-block of zeros: the rows and signs after it land too early."""
    values = kinds()["gaussian"].copy()
    values[:, 64:96] = 0
    ours, engines = quantize("ggml.iq3_s", values), by_engine(engine, "ggml.iq3_s", values, None)
    whole = float((values.astype(np.float64) ** 2).sum())
    assert error("ggml.iq3_s", ours, values, None) < 0.05 * whole
    assert error("ggml.iq3_s", engines, values, None) > 0.2 * whole
    # The second super-block of a row is the same; so are the first one's scales, high bits, and what comes before.
    ours, engines = (data.reshape(-1, 2, 110) for data in (ours, engines))
    np.testing.assert_array_equal(ours[:, 1], engines[:, 1])
    for field in (slice(0, 2 + 16), slice(66, 74), slice(74, 74 + 8), slice(106, 110)):
        np.testing.assert_array_equal(ours[:, 0, field], engines[:, 0, field])


def partner(activation: str) -> str:
    """Some weights whose dot product takes `activation`: the engine is asked by their name."""
    return next(name for name, found in load_units().items() if found.activation == activation)


def activations_by_engine(engine: Oracle, activation: str, values: np.ndarray) -> np.ndarray:
    """uint8 [n_blocks, block_bytes]."""
    answer = engine.call("quantize_activation", {"encoding": partner(activation)}, {"values": values})
    assert answer.result["encoding"] == activation
    return answer.arrays["data"].reshape(-1, unit(activation).block_bytes)


def written_rows(activation: str, values: np.ndarray) -> np.ndarray:
    """The rows of which the engine writes every byte: of a Q8_K block without a magnitude it leaves out the sums."""
    if activation != "ggml.q8_k":
        return values
    return values[(np.abs(values) > 0).reshape(len(values), -1, 256).any(axis=2).all(axis=1)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_gets_another_code_than_the_engine_gives_it(engine: Oracle, activation: str) -> None:
    rows = {name: written_rows(activation, values) for name, values in kinds().items()}
    values = np.concatenate(list(rows.values()))
    ours = quantize_activation(activation, values).reshape(len(values), -1)
    engines = activations_by_engine(engine, activation, values).reshape(ours.shape)
    different = by_kind(rows, (ours != engines).any(axis=1))
    assert not {name: int(part.sum()) for name, part in different.items() if part.any()}


def test_the_sums_of_a_block_of_zeros_are_not_written() -> None:
    values = np.zeros((2, 256), np.float32)
    values[1] = -0.0
    assert not quantize_activation("ggml.q8_k", values).any()


def test_the_activations_of_q8_0_are_those_of_its_weights() -> None:
    values = np.random.default_rng(1).standard_normal((4096, 256)).astype(np.float32)
    assert (quantize("ggml.q8_0", values) != quantize_activation("ggml.q8_0", values)).any()


def assert_only_hit_blocks_may_differ(
    encoding: str, values: np.ndarray, ours: np.ndarray, engines: np.ndarray
) -> None:
    """And these too must be the same where the CPU makes the same of what is no number."""
    different = (ours.reshape(engines.shape) != engines).any(axis=1)
    hit = ~np.isfinite(values).reshape(-1, unit(encoding).block_elems).all(axis=1)
    assert hit.any()
    assert not different[~hit].any()
    assert not ON_X86 or not different[hit].any()


@pytest.mark.parametrize("encoding", [name for name in WEIGHTS if name not in TABLES])
def test_a_nan_spoils_what_it_does_not_spoil_in_the_engine(engine: Oracle, encoding: str) -> None:
    values = not_finite()
    engines = by_engine(engine, encoding, values, None).reshape(-1, unit(encoding).block_bytes)
    assert_only_hit_blocks_may_differ(encoding, values, quantize(encoding, values), engines)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_nan_spoils_other_activations_than_in_the_engine(engine: Oracle, activation: str) -> None:
    values = written_rows(activation, not_finite())
    engines = activations_by_engine(engine, activation, values)
    assert_only_hit_blocks_may_differ(activation, values, quantize_activation(activation, values), engines)


def test_the_exponent_just_below_a_power_of_two_is_rounded_another_way(engine: Oracle) -> None:
    near = np.arange(-96, 32) + (np.arange(1, 255)[:, None] << 23)
    subnormal = np.arange(1, 257) << np.arange(0, 15)[:, None]
    largest = np.concatenate([near.reshape(-1), subnormal.reshape(-1)]).astype(np.uint32).view(np.float32)
    values = np.zeros((len(largest), 64), np.float32)
    values[:, 5] = largest
    for encoding in ("ggml.mxfp4", "ggml.nvfp4"):
        ours = quantize(encoding, values).reshape(len(values), -1)
        assert (ours == by_engine(engine, encoding, values, None)).all()


def test_a_half_is_rounded_another_way(engine: Oracle) -> None:
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = [0, 1, 0xFFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    values = (upper | np.array(lower, np.uint32)[:, None]).view(np.float32)
    for encoding in ("ggml.f16", "ggml.bf16"):
        ours = quantize(encoding, values).reshape(len(values), -1)
        assert (ours == by_engine(engine, encoding, values, None)).all()


def test_the_engine_asks_for_importance_where_we_do_not(engine: Oracle) -> None:
    assert set(engine.details["needs_imatrix"]) == NEEDS_IMPORTANCE


def test_an_encoding_that_the_engine_quantizes_is_missing(engine: Oracle) -> None:
    ours = load_units()
    assert set(engine.ops["quantize"]) & set(ours) == set(WEIGHTS)
    fed = [ours[name].activation for name in engine.ops["quantize_activation"] if name in ours]
    assert set(fed) == set(ACTIVATIONS)
