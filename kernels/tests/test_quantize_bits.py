"""Our quantizers give the bytes that the pinned engine gives."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import numpy as np
import pytest

from kernels.quantizer import NEEDS_IMPORTANCE, offered, quantize, quantize_activation
from kernels.tests.quantize_rows import BEYOND_A_TABLE, importances, kinds, not_finite
from kernels.units import load_units, unit
from oracles.pool import Oracle, Pool

WEIGHTS, ACTIVATIONS = (offered()[op] for op in ("quantize", "quantize_activation"))
TABLES = tuple(name for name in WEIGHTS if "grid" in unit(name).tables)
PLAIN = tuple(name for name in WEIGHTS if name not in NEEDS_IMPORTANCE)
SEARCHED = tuple(name for name in WEIGHTS if name.startswith(("ggml.iq", "ggml.q")))
"""Those whose name says nothing against an importance matrix; that some of them ignore it is part of the comparison."""

ON_X86 = platform.machine() in ("x86_64", "AMD64")
"""What an integer made of a NaN or of a too large number is, and which NaN an invalid operation gives, is the CPU's."""

IQ3_S_MISPLACES = ("mostly zero", "mostly minus zero")
"""Kinds with sub-blocks of zeros beside others, where the engine's IQ3_S is wrong: see test_quantize_error.py."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Oracle]:
    with Pool() as pool:
        yield pool.get("llama_cpp.ops")


def by_engine(
    engine: Oracle, encoding: str, values: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    arrays = {"values": values} | ({} if weights is None else {"imatrix": weights})
    answer = engine.call("quantize", {"encoding": encoding}, arrays)
    return answer.arrays["data"].reshape(len(values), -1)


def rows_for(encoding: str) -> dict[str, np.ndarray]:
    left_out = BEYOND_A_TABLE if encoding in TABLES else ()
    left_out += IQ3_S_MISPLACES if encoding == "ggml.iq3_s" else ()
    return {name: values for name, values in kinds().items() if name not in left_out}


def differing(rows: dict[str, np.ndarray], ours: np.ndarray, engines: np.ndarray) -> dict[str, int]:
    """Kind -> how many of its rows have another byte."""
    different = (ours.reshape(engines.shape) != engines).any(axis=1)
    parts = np.split(different, np.cumsum([len(values) for values in rows.values()])[:-1])
    return {name: int(part.sum()) for name, part in zip(rows, parts, strict=True) if part.any()}


@pytest.mark.parametrize("encoding", PLAIN)
def test_a_weight_gets_another_code_than_the_engine_gives_it(engine: Oracle, encoding: str) -> None:
    rows = rows_for(encoding)
    values = np.concatenate(list(rows.values()))
    assert not differing(rows, quantize(encoding, values), by_engine(engine, encoding, values))


@pytest.mark.parametrize("importance", importances())
@pytest.mark.parametrize("encoding", SEARCHED)
def test_the_importance_of_a_column_is_not_the_engines(
    engine: Oracle, encoding: str, importance: str
) -> None:
    rows, weights = rows_for(encoding), importances()[importance]
    values = np.concatenate(list(rows.values()))
    engines = by_engine(engine, encoding, values, weights)
    assert not differing(rows, quantize(encoding, values, weights), engines)


def partner(activation: str) -> str:
    """Some weights whose dot product takes `activation`: the engine is asked by their name."""
    return next(name for name, found in load_units().items() if found.activation == activation)


def activations_by_engine(engine: Oracle, activation: str, values: np.ndarray) -> np.ndarray:
    answer = engine.call("quantize_activation", {"encoding": partner(activation)}, {"values": values})
    assert answer.result["encoding"] == activation
    data = answer.arrays["data"].reshape(len(values), -1)
    if activation == "ggml.q8_k":
        # The sums of a block of zeros are whatever was there before; ours are 0.
        blocks = data.copy().reshape(-1, 292)
        blocks[(blocks[:, 0:4] == 0).all(axis=1), 260:] = 0
        data = blocks.reshape(data.shape)
    return data


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_is_rounded_as_a_weight_is(engine: Oracle, activation: str) -> None:
    rows = kinds()
    values = np.concatenate(list(rows.values()))
    engines = activations_by_engine(engine, activation, values)
    assert not differing(rows, quantize_activation(activation, values), engines)


def test_the_activations_of_q8_0_are_those_of_its_weights() -> None:
    values = np.random.default_rng(1).standard_normal((4096, 256)).astype(np.float32)
    assert (quantize("ggml.q8_0", values) != quantize_activation("ggml.q8_0", values)).any()


def hit_blocks(encoding: str, values: np.ndarray) -> np.ndarray:
    return ~np.isfinite(values).reshape(-1, unit(encoding).block_elems).all(axis=1)


@pytest.mark.parametrize("encoding", [name for name in WEIGHTS if name not in TABLES])
def test_a_nan_spoils_what_it_does_not_spoil_in_the_engine(engine: Oracle, encoding: str) -> None:
    values, found = not_finite(), unit(encoding)
    ours = quantize(encoding, values).reshape(-1, found.block_bytes)
    engines = by_engine(engine, encoding, values).reshape(ours.shape)
    hit = hit_blocks(encoding, values)
    assert hit.any()
    assert not (ours != engines)[~hit].any()
    assert not ON_X86 or not (ours != engines)[hit].any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_nan_spoils_other_activations_than_in_the_engine(engine: Oracle, activation: str) -> None:
    values, found = not_finite(), unit(activation)
    ours = quantize_activation(activation, values).reshape(-1, found.block_bytes)
    engines = activations_by_engine(engine, activation, values).reshape(ours.shape)
    hit = hit_blocks(activation, values)
    assert not (ours != engines)[~hit].any()
    assert not ON_X86 or not (ours != engines)[hit].any()


def test_the_exponent_just_below_a_power_of_two_is_rounded_another_way(engine: Oracle) -> None:
    near = np.arange(-96, 32) + (np.arange(1, 255)[:, None] << 23)
    subnormal = np.arange(1, 257) << np.arange(0, 15)[:, None]
    largest = np.concatenate([near.reshape(-1), subnormal.reshape(-1)]).astype(np.uint32).view(np.float32)
    for encoding in ("ggml.mxfp4", "ggml.nvfp4"):
        values = np.zeros((len(largest), 64), np.float32)
        values[:, 5] = largest
        ours = quantize(encoding, values).reshape(len(values), -1)
        assert (ours == by_engine(engine, encoding, values)).all()


def test_a_half_is_rounded_another_way(engine: Oracle) -> None:
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    values = (upper | lower[:, None]).view(np.float32)
    for encoding in ("ggml.f16", "ggml.bf16"):
        ours = quantize(encoding, values).reshape(len(values), -1)
        assert (ours == by_engine(engine, encoding, values)).all()


def test_the_engine_asks_for_importance_where_we_do_not(engine: Oracle) -> None:
    assert set(engine.details["needs_imatrix"]) == NEEDS_IMPORTANCE


def test_an_encoding_that_the_engine_quantizes_is_missing(engine: Oracle) -> None:
    assert set(engine.ops["quantize"]) == set(WEIGHTS)
    assert {unit(name).activation for name in engine.ops["quantize_activation"]} == set(ACTIVATIONS)
