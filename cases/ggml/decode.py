"""Families of decode cases: every ggml encoding that has a unit, on the cpu backend, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from cases.generators import (
    Blocks,
    ascending,
    code_fields,
    every_byte,
    every_code,
    every_half_scale,
    float_type,
    ordinary_blocks,
    random_blocks,
    scale_fields,
    special_scales,
    special_values,
    value_fields,
)
from cases.ggml.family import NO_SUCH_FIELD, decodes
from kernels.units import Unit, load_units, unit
from oracles.known import KnownAnswer, load_known

RANDOM_BLOCKS = 50_000
FORMULA_ELEMENTS = 1 << 19
"""The formula is slow: of a long case it judges blocks spread evenly, about this many elements."""

ENCODINGS = tuple(
    name
    for name, found in load_units().items()
    if found.dialect == "ggml" and "cpu" in found.ops.get("dequantize", ())
)
NO_ENGINE_DECODE = frozenset({"ggml.q8_1"})
"""Activation encodings that no engine decodes: the formula and the known answers alone judge."""

Draw = Callable[[Unit, np.random.Generator], Blocks]

VALUES: Mapping[str, tuple[Draw, Callable[[Unit], bool]]] = {
    "random_bytes": (lambda found, rng: random_blocks(found, RANDOM_BLOCKS, rng), lambda _: True),
    "ordinary_scales": (lambda found, rng: ordinary_blocks(found, RANDOM_BLOCKS, rng), lambda _: True),
    "every_byte": (lambda found, _: every_byte(found), lambda _: True),
    "ascending": (lambda found, _: ascending(found), lambda _: True),
    "every_code": (lambda found, _: every_code(found), lambda found: bool(code_fields(found))),
    "special_scales": (special_scales, lambda found: bool(scale_fields(found))),
    "every_half_scale": (every_half_scale, lambda found: _has_half_scale(found)),
    "special_values": (lambda found, _: special_values(found), lambda found: bool(value_fields(found))),
}
"""Value of the axis -> what draws its blocks, and the encodings that have such blocks."""


def _has_half_scale(found: Unit) -> bool:
    return any(float_type(field) == "f16" for field in scale_fields(found))


def known_id(answer: KnownAnswer) -> str:
    """A known answer's name as a case ID has it."""
    return re.sub(r"[^a-z0-9]+", "_", answer.name.lower()).strip("_")


KNOWN = {(entry.encoding, known_id(entry)): entry for entry in load_known() if entry.op == "dequantize"}


def unfit(chosen: Mapping[str, str]) -> str | None:
    """Why an encoding has no blocks of a value of the axis; None where it has."""
    return None if VALUES[chosen["values"]][1](unit(chosen["encoding"])) else NO_SUCH_FIELD


def _unknown(chosen: Mapping[str, str]) -> str | None:
    return None if (chosen["encoding"], chosen["answer"]) in KNOWN else "another encoding's answer"


_FILES = (Path(__file__), Path(__file__).parent / "test_decode_cases.py")

DECODE = decodes(
    "ggml.decode",
    tuple(name for name in ENCODINGS if name not in NO_ENGINE_DECODE),
    {"values": tuple(VALUES)},
    _FILES,
    refuse=unfit,
)
FORMULA = decodes("ggml.decode_formula", ENCODINGS, {"values": tuple(VALUES)}, _FILES, refuse=unfit)
KNOWN_ANSWERS = decodes(
    "ggml.decode_known",
    tuple(name for name in ENCODINGS if any(name == encoding for encoding, _ in KNOWN)),
    {"answer": tuple(dict.fromkeys(name for _, name in KNOWN))},
    _FILES,
    refuse=_unknown,
)
