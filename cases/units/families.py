"""Families of one format each: decodes judged by a formula and by known answers, configs judged by their fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cases.ggml.decode import VALUES, known_id, unfit
from cases.ggml.family import decodes
from harness.evidence.case import Family
from harness.rows.model import Dimension
from oracles.known import KnownAnswer, load_known

ANSWERS: Mapping[tuple[str, str, str], KnownAnswer] = {
    (answer.encoding, answer.op, known_id(answer)): answer for answer in load_known()
}
"""(encoding, op, name as a case ID has it) -> the answer."""

_SHARED = (Path(__file__), Path(__file__).with_name("judged.py"))


def by_formula(encoding: str, files: tuple[Path, ...]) -> Family:
    """Decodes of all data that the fields of the encoding give rise to: random, every code, special scales, ..."""
    fitting = tuple(name for name in VALUES if unfit({"encoding": encoding, "values": name}) is None)
    return decodes(f"{encoding}.formula", (encoding,), {"values": fitting}, files + _SHARED)


def by_known_answers(encoding: str, op: str, files: tuple[Path, ...]) -> Family:
    """Decodes (`dequantize`) of known blocks, or the bytes (`quantize`) of known values."""
    names = tuple(name for found, its_op, name in ANSWERS if (found, its_op) == (encoding, op))
    return decodes(f"{encoding}.known_{op}", (encoding,), {"answer": names}, files + _SHARED, op=op)


def by_configs(method: str, row: str, names: tuple[str, ...], files: tuple[Path, ...]) -> Family:
    """Configs of a method's checkpoints (Recognize), field by field."""
    return Family(
        name=f"{method}.config",
        op="recognize",
        dimension=Dimension.RECOGNIZE,
        backends=("cpu",),
        encodings=(),
        axes={"config": names},
        rows=lambda _: (row,),
        bound="the same fields",
        files=files + _SHARED,
    )
