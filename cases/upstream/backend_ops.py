"""The cases of seven ops that llama.cpp's test-backend-ops runs, as data: `backend-ops-cases.csv`.

Each line holds an op, its parameters as upstream prints them, and whether llama.cpp's CPU backend supports the case.
41 lines repeat another one; upstream runs them, so they are cases of their own, told apart by `occurrence`.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from harness.errors import BadInput

PATH = Path(__file__).parent / "backend-ops-cases.csv"
HEADER = ["op", "params", "cpu_supported"]

OPS = ("MUL_MAT", "MUL_MAT_ID", "GET_ROWS", "GET_ROWS_BACK", "SET_ROWS", "CPY", "OUT_PROD")
FLOAT_TYPES = frozenset({"f32", "f16", "bf16"})
INDEX_TYPES = frozenset({"i32", "i64"})
_TYPE_KEYS = ("type", "type_a", "type_b", "type_src", "type_dst", "type_idx")

# A comma that separates parameters, not the numbers of a list in brackets.
_SEPARATOR = re.compile(r",(?![^\[]*\])")


@dataclass(frozen=True)
class BackendOpCase:
    """One case: `op`, `text` (the parameters as printed), CPU support, and which of several equal lines it is."""

    op: str
    text: str
    cpu_supported: bool
    occurrence: int

    @property
    def id(self) -> str:
        """Unique and stable: `MUL_MAT(type_a=f32,…)`, with `#2` and so on for a repeated line."""
        name = f"{self.op}({self.text})"
        return name if self.occurrence == 1 else f"{name}#{self.occurrence}"

    @cached_property
    def params(self) -> dict[str, str | list[int]]:
        """Parameter -> text, or the numbers of a list such as `ne=[256,5,1,3]`."""
        pairs = (part.split("=", 1) for part in _SEPARATOR.split(self.text))
        return {
            name: [int(number) for number in value[1:-1].split(",")] if value.startswith("[") else value
            for name, value in pairs
        }

    @property
    def types(self) -> tuple[str, ...]:
        """The ggml types that the case names, each once, in the order of its parameters."""
        named = [str(value) for name, value in self.params.items() if name in _TYPE_KEYS]
        return tuple(dict.fromkeys(named))

    @property
    def quantized_types(self) -> tuple[str, ...]:
        return tuple(name for name in self.types if name not in FLOAT_TYPES and name not in INDEX_TYPES)

    @property
    def encodings(self) -> tuple[str, ...]:
        """The encodings of the case, `ggml.q4_k` for `q4_K`; index types are none."""
        return tuple(f"ggml.{name.lower()}" for name in self.types if name not in INDEX_TYPES)


@cache
def load_cases(path: Path = PATH) -> tuple[BackendOpCase, ...]:
    """Every case, in upstream's order. `BadInput` names file and line."""
    seen: Counter[tuple[str, str]] = Counter()
    cases = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            # The lines before the header say where the list comes from.
            numbered = [(number, line) for number, line in enumerate(file, 1) if not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(file=path, field="(file)", got=error, wanted="a readable UTF-8 file") from error
    for (number, _), record in zip(numbered, csv.reader(line for _, line in numbered), strict=True):
        if number == numbered[0][0]:
            if record != HEADER:
                raise BadInput(file=path, field=f"line {number}", got=record, wanted=f"the header {HEADER}")
            continue
        _check(path, number, record)
        op, text, supported = record
        seen[op, text] += 1
        cases.append(BackendOpCase(op, text, supported == "1", seen[op, text]))
    return tuple(cases)


def _check(path: Path, number: int, record: list[str]) -> None:
    field = f"line {number}"
    if len(record) != len(HEADER):
        raise BadInput(file=path, field=field, got=f"{len(record)} columns", wanted=f"{len(HEADER)} columns")
    op, text, supported = record
    if op not in OPS:
        raise BadInput(file=path, field=f"{field}, op", got=op, wanted=f"one of {', '.join(OPS)}")
    if not all("=" in part for part in _SEPARATOR.split(text)):
        raise BadInput(
            file=path, field=f"{field}, params", got=text, wanted="name=value, separated by commas"
        )
    if supported not in ("0", "1"):
        raise BadInput(file=path, field=f"{field}, cpu_supported", got=supported, wanted="0 or 1")
