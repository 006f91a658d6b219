"""Our decode of every ggml encoding against llama.cpp, gguf-py, the formula in float64 and answers derived by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases.generators import Blocks
from cases.ggml import formulas
from cases.ggml.decode import (
    DECODE,
    ENCODINGS,
    FORMULA,
    FORMULA_ELEMENTS,
    KNOWN,
    KNOWN_ANSWERS,
    NO_ENGINE_DECODE,
    VALUES,
)
from cases.ggml.judges import LEVEL, decoders, kernel_of
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import decoded_by, own_judge
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels.provider import dequantize
from kernels.units import Unit, unit
from oracles.pool import Pool, pins_for


def drawn(case: Case) -> tuple[Unit, Blocks]:
    """The encoding of a case, and its blocks uint8 [n, block_bytes]."""
    found = unit(case.encoding or "")
    return found, VALUES[case.axis("values")][0](found, np.random.default_rng(case.seed))


def ours(found: Unit, blocks: Blocks, guarded: Guarded) -> np.ndarray:
    """Our decode, float32 [n, block_elems], into guarded memory."""
    values = guarded.output(np.float32, (len(blocks), found.block_elems))
    return dequantize(found.encoding, guarded.input(blocks.reshape(-1)), values.shape, out=values)


@pytest.mark.cases(DECODE)
def test_decode_differs_from_an_engine(
    case: Case, verdict: CaseVerdict, guarded: Guarded, oracle_pool: Pool
) -> None:
    found, blocks = drawn(case)
    values = ours(found, blocks, guarded)
    opinions = decoded_by(
        decoders(oracle_pool, found.encoding), found.encoding, blocks.reshape(-1), values.shape
    )
    verdict(values, opinions, kernel=kernel_of(found, "decode"), block_elems=found.block_elems)


@pytest.mark.cases(FORMULA)
def test_decode_differs_from_the_formula_in_float64(
    case: Case, verdict: CaseVerdict, guarded: Guarded, oracle_pool: Pool
) -> None:
    found, blocks = drawn(case)
    kept = max(1, FORMULA_ELEMENTS // found.block_elems)
    blocks = np.ascontiguousarray(blocks[:: -(-len(blocks) // kept)])
    values = ours(found, blocks, guarded)
    formula = Opinion(own_judge("formula", [Path(formulas.__file__)]), formulas.evaluate(found, blocks))
    engines = decoded_by(
        decoders(oracle_pool, found.encoding), found.encoding, blocks.reshape(-1), values.shape
    )
    verdict(values, [*engines, formula], kernel=kernel_of(found, "decode"), block_elems=found.block_elems)


@pytest.mark.cases(KNOWN_ANSWERS)
def test_decode_differs_from_an_answer_derived_by_hand(
    case: Case, verdict: CaseVerdict, guarded: Guarded, oracle_pool: Pool
) -> None:
    found = unit(case.encoding or "")
    answer = KNOWN[found.encoding, case.axis("answer")]
    data = np.frombuffer(answer.data, np.uint8)
    values = dequantize(
        found.encoding, guarded.input(data), answer.shape, out=guarded.output(np.float32, answer.shape)
    )
    by_hand = Opinion(
        own_judge("known_answers", [found.path / "known.yaml"]), answer.values.reshape(answer.shape)
    )
    engines = decoded_by(decoders(oracle_pool, found.encoding), found.encoding, data, answer.shape)
    verdict(values, [by_hand, *engines], kernel=kernel_of(found, "decode"), block_elems=found.block_elems)


def test_no_encoding_goes_without_a_formula() -> None:
    assert set(ENCODINGS) <= set(formulas.FORMULAS)


def test_no_encoding_goes_without_a_known_answer() -> None:
    assert {encoding for encoding, _ in KNOWN} == set(ENCODINGS)


def test_llama_cpp_is_not_asked_about_an_encoding_that_it_decodes(oracle_pool: Pool) -> None:
    engine = oracle_pool.get(pins_for("llama_cpp", LEVEL)[0])
    assert set(ENCODINGS) - NO_ENGINE_DECODE <= set(engine.ops["dequantize"])


def test_an_encoding_has_two_opinions_and_uses_one(oracle_pool: Pool) -> None:
    alone = {name for name in DECODE.encodings if len(decoders(oracle_pool, name)) < 2}
    assert alone <= {"ggml.q1_0", "ggml.q2_0", "ggml.q8_k"}, "formats decodes it: its answer must be heard"
