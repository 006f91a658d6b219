"""Our decode of every ggml encoding against llama.cpp, gguf-py and the formula in float64, bit for bit."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from cases.generators import Blocks, suite
from cases.ggml.formulas import FORMULAS, evaluate
from kernels.provider import dequantize
from kernels.units import Unit, load_units
from oracles.known import KnownAnswer, load_known
from oracles.pool import Pool, pins_for

RANDOM_BLOCKS = 100_000
FORMULA_BLOCKS = 4096
"""The formula is slow: of a long case it judges this many blocks."""

UNITS = [unit for unit in load_units().values() if unit.dialect == "ggml"]
encodings = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.encoding)

NO_ENGINE_DECODE = {"ggml.q8_1"}
"""Activation encodings that no engine decodes: the formula alone judges."""


def seed_of(unit: Unit) -> int:
    return zlib.crc32(unit.encoding.encode())


def ours(unit: Unit, blocks: Blocks) -> NDArray[np.float32]:
    return dequantize(unit.encoding, blocks.reshape(-1), (len(blocks), unit.block_elems))


def assert_same_bits(
    got: NDArray[np.float32], wanted: NDArray[np.float32], blocks: Blocks, where: str
) -> None:
    """Equal NaN masks, and equal bits elsewhere: -0.0 is not 0.0."""
    assert got.shape == wanted.shape, where
    assert got.dtype == wanted.dtype == np.float32, where
    same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
    if not same.all():
        block, lane = np.argwhere(~same)[0]
        pytest.fail(
            f"{where}: {np.count_nonzero(~same)} of {same.size} differ, first at block {block} lane {lane}: "
            f"{got[block, lane]!r}, wanted {wanted[block, lane]!r}, block {blocks[block].tobytes().hex()}"
        )


@encodings
def test_decode_differs_from_no_oracle_on_random_codes_and_special_scales(
    unit: Unit, oracle_pool: Pool
) -> None:
    judges = [oracle_pool.get(name) for name in pins_for("llama_cpp", "tensors")]
    judges = [judge for judge in judges if judge.supports("dequantize", unit.encoding)]
    assert judges or unit.encoding in NO_ENGINE_DECODE, "no oracle decodes it"
    for case in suite(unit, random=RANDOM_BLOCKS, seed=seed_of(unit)):
        got = ours(unit, case.blocks)
        for judge in judges:
            wanted = judge.dequantize(unit.encoding, case.blocks.reshape(-1), got.shape).arrays["values"]
            assert_same_bits(
                got, wanted, case.blocks, f"{unit.encoding}, {case.name}, seed {seed_of(unit)}, {judge.name}"
            )


@encodings
def test_decode_differs_nowhere_from_the_formula_in_float64(unit: Unit) -> None:
    for case in suite(unit, random=2 * FORMULA_BLOCKS, seed=seed_of(unit)):
        blocks = case.blocks[:FORMULA_BLOCKS]
        assert_same_bits(ours(unit, blocks), evaluate(unit, blocks), blocks, f"{unit.encoding}, {case.name}")


def test_no_encoding_goes_without_a_formula() -> None:
    assert set(FORMULAS) == {unit.encoding for unit in UNITS}


def test_llama_cpp_is_asked_about_every_encoding_that_it_decodes(oracle_pool: Pool) -> None:
    offered = set(oracle_pool.get(pins_for("llama_cpp", "tensors")[0]).ops["dequantize"])
    assert {unit.encoding for unit in UNITS} - NO_ENGINE_DECODE <= offered


KNOWN = [answer for answer in load_known() if answer.op == "dequantize"]


@pytest.mark.parametrize("answer", KNOWN, ids=lambda answer: f"{answer.encoding}-{answer.name}")
def test_decode_gives_the_answers_derived_by_hand(answer: KnownAnswer) -> None:
    got = dequantize(answer.encoding, np.frombuffer(answer.data, np.uint8), answer.shape)
    values = answer.values.reshape(answer.shape)
    same = (got.view(np.uint32) == values.view(np.uint32)) | (np.isnan(got) & np.isnan(values))
    assert same.all(), f"{answer.encoding}, {answer.name}: {got[~same][:4]}, wanted {values[~same][:4]}"


@encodings
def test_no_encoding_goes_without_a_known_answer(unit: Unit) -> None:
    assert any(answer.encoding == unit.encoding for answer in KNOWN)
