"""How the cases of one format are judged: our kernel in guarded memory, the judges, the verdict."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases.ggml.decode import FORMULA_ELEMENTS, VALUES
from cases.ggml.judges import kernel_of
from cases.units.families import ANSWERS
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import own_judge
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels.provider import dequantize
from kernels.quantizer import quantize
from kernels.units import unit

Formula = Callable[[NDArray[np.uint8]], NDArray[np.float64]]


def judge_by_formula(
    case: Case, formula: Formula, verdict: CaseVerdict, guarded: Guarded, engines: Sequence[Opinion] = ()
) -> None:
    """Our decode of the case's blocks against the formula, rounded once. An engine's opinions go before it."""
    found = unit(case.encoding or "")
    blocks = VALUES[case.axis("values")][0](found, np.random.default_rng(case.seed))
    kept = max(1, FORMULA_ELEMENTS // found.block_elems)
    blocks = np.ascontiguousarray(blocks[:: -(-len(blocks) // kept)])
    values = guarded.output(np.float32, (len(blocks), found.block_elems))
    dequantize(found.encoding, guarded.input(blocks.reshape(-1)), values.shape, out=values)
    with np.errstate(all="ignore"):
        exact = formula(blocks).astype(np.float32)
    judge = own_judge("formula", [Path(formula.__code__.co_filename)])
    verdict(
        values,
        [*engines, Opinion(judge, exact)],
        kernel=kernel_of(found, "decode"),
        block_elems=found.block_elems,
    )


def judge_by_known_answer(
    case: Case, verdict: CaseVerdict, guarded: Guarded, engines: Sequence[Opinion] = ()
) -> None:
    """Our decode of a block whose values were derived by hand."""
    found = unit(case.encoding or "")
    answer = ANSWERS[found.encoding, "dequantize", case.axis("answer")]
    data = guarded.input(np.frombuffer(answer.data, np.uint8))
    values = dequantize(found.encoding, data, answer.shape, out=guarded.output(np.float32, answer.shape))
    by_hand = Opinion(
        own_judge("known_answers", [found.path / "known.yaml"]), answer.values.reshape(answer.shape)
    )
    verdict(values, [*engines, by_hand], kernel=kernel_of(found, "decode"), block_elems=found.block_elems)


def judge_known_bytes(case: Case, verdict: CaseVerdict, engines: Sequence[Opinion] = ()) -> None:
    """Our bytes of values whose encoding was derived by hand."""
    found = unit(case.encoding or "")
    answer = ANSWERS[found.encoding, "quantize", case.axis("answer")]
    data = quantize(found.encoding, answer.values.reshape(answer.shape))
    by_hand = Opinion(
        own_judge("known_answers", [found.path / "known.yaml"]), np.frombuffer(answer.data, np.uint8)
    )
    verdict(data, [*engines, by_hand], kernel=f"kernels/{found.dialect}/{found.name}/quantize.py:encode")


def judge_config(
    case: Case,
    method: str,
    config: Mapping[str, Any],
    fields: Mapping[str, object],
    source: Path,
    verdict: CaseVerdict,
) -> None:
    """What our method reads out of a `quantization_config`, against the fields that were read out of it by hand."""
    module = importlib.import_module(f"kernels.{method}.method")
    assert module.detect(config), f"{case.id}: the config is not taken for one of {method}"
    ours = dataclasses.asdict(module.Config.from_config(config))
    judge = own_judge("known_answers", [source])
    verdict.fields(
        ours, {"known_answers": fields}, [judge], kernel=f"kernels/{method.replace('.', '/')}/method.py"
    )
