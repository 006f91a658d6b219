"""Families of llama.cpp's test-backend-ops: a case for each line of `backend-ops-cases.csv`, a family for each op.

A case names its line by the encoding and the line's other parameters; `line_of` and `case_id` lead from one to the other.
Lines of 32-bit integers alone have no encoding and are families of their own, in the row of the ops themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cases.ggml.family import present, rows_of
from cases.upstream.backend_ops import FLOAT_TYPES, INDEX_TYPES, BackendOpCase, load_cases
from harness.comparison.bounds import BIT_EXACT
from harness.evidence.case import Ancestor, Case, Family
from harness.rows.model import Dimension

SOURCE = "tests/test-backend-ops.cpp"
NO_ENCODING_ROW = "QUANT-GGUF-CIQ-GEMM"

PRODUCT = (
    "gamma_c(u=2^-24) * sum|a||b| + underflow, for ours and the engine's: kernels/cpu_matmul_bound.py; "
    "c = k / 8 + 12 for weights that are floats"
)
GRADIENT = "gamma_r(u=2^-24) * sum|g| over the rows that share an index, r the rows of the gradient"
OUTER = "gamma_(k+1)(u=2^-24) * sum|a||b| over the k products, decoded exactly, and half the smallest number"
COPY = f"{BIT_EXACT.derivation}: bytes, encoded as the engine's ops do"

_FILES = tuple(
    Path(__file__).parent / f"{name}.py"
    for name in ("backend_ops", "backend_ops_tensors", "backend_ops_judges", "test_backend_ops_cases")
)


def upstream_bound(line: BackendOpCase) -> float:
    """Upstream's limit of the normalized mean squared error, which its statistic does not exceed."""
    if line.op in ("MUL_MAT", "MUL_MAT_ID", "OUT_PROD"):
        return 5e-4
    if line.op in ("GET_ROWS", "GET_ROWS_BACK"):
        return 1e-7
    target = str(line.params["type_dst" if line.op == "CPY" else "type"])
    if line.op == "CPY" and line.params["type_src"] == target:
        return 0.0
    steps = {"q4_0": 1 / 8, "q4_1": 1 / 8, "iq4_nl": 1 / 8, "q5_0": 1 / 16, "q5_1": 1 / 16, "q8_0": 1 / 64}
    if target not in steps:
        return 1e-6 if line.op == "CPY" else 1e-7
    step = steps[target] * (2 if line.op == "CPY" and target == "iq4_nl" else 1)
    return step**2 / (0.25 * _elements(line))


def _elements(line: BackendOpCase) -> int:
    """Of what is written, as upstream counts it."""
    if line.op == "CPY":
        return math.prod(numbers(line, "ne_src"))
    first, _, *batch = numbers(line, "ne")
    return first * number(line, "r") * math.prod(batch) * math.prod(numbers(line, "nr23"))


def number(line: BackendOpCase, name: str) -> int:
    value = line.params[name]
    assert isinstance(value, str)
    return int(value)


def numbers(line: BackendOpCase, name: str) -> list[int]:
    value = line.params[name]
    assert isinstance(value, list)
    return value


def encoding_of(line: BackendOpCase) -> str | None:
    """The encoding that a line is about: of weights, of what is written, or of the one that is quantized; None for integers."""
    if line.op == "CPY":
        both = (str(line.params["type_dst"]), str(line.params["type_src"]))
        names = [name for name in both if name not in FLOAT_TYPES | INDEX_TYPES]
        names += [name for name in both if name in FLOAT_TYPES]
    else:
        names = [
            str(line.params[key])
            for key in ("type_a", "type")
            if line.params.get(key) not in (None, *INDEX_TYPES)
        ]
    return f"ggml.{names[0].lower()}" if names else None


def words_of(line: BackendOpCase) -> str:
    """The line as an axis value has it: parameters without the type that the encoding names, lists as `3x2`, `#2` repeated."""
    dropped = {"MUL_MAT": "type_a", "MUL_MAT_ID": "type_a", "OUT_PROD": "type_a"}.get(line.op, "type")
    parts = []
    for name, value in line.params.items():
        if name != dropped or line.op == "CPY":
            parts.append(f"{name}={'x'.join(map(str, value)) if isinstance(value, list) else value}")
    return ",".join(parts) + (f"#{line.occurrence}" if line.occurrence > 1 else "")


@cache
def _lines(op: str) -> Mapping[tuple[str | None, str], BackendOpCase]:
    return {(encoding_of(line), words_of(line)): line for line in load_cases() if line.op == op}


def line_of(case: Case) -> BackendOpCase:
    """The line of upstream's list that a case is."""
    return _lines(_OPS[case.family])[case.encoding, case.axis("line")]


def case_id(line: BackendOpCase) -> str:
    """The ID of the case that a line becomes."""
    encoding = encoding_of(line)
    family = f"ggml.backend_ops.{line.op.lower()}{'' if encoding else '_i32'}"
    return "/".join([family, *([encoding] if encoding else []), words_of(line), "cpu"])


def _family(op: str, name: str, dimension: Dimension, bound: str, upstream: str, encoded: bool) -> Family:
    lines = {key: line for key, line in _lines(op).items() if (key[0] is not None) == encoded}
    kept = present({key[0] for key in lines if key[0] is not None})
    lines = {key: line for key, line in lines.items() if key[0] is None or key[0] in kept}

    def refuse(chosen: Mapping[str, str]) -> str | None:
        here = (chosen.get("encoding"), chosen["line"])
        return None if here in lines else "upstream has no such line"

    return Family(
        name=f"ggml.backend_ops.{op.lower()}{'' if encoded else '_i32'}",
        op=name,
        dimension=dimension,
        backends=("cpu",),
        encodings=tuple(sorted(kept)),
        axes={"line": tuple(dict.fromkeys(key[1] for key in lines))},
        rows=rows_of if encoded else lambda _: (NO_ENCODING_ROW,),
        bound=bound,
        files=_FILES,
        upstream=(Ancestor(engine="llama.cpp", file=SOURCE, test=op, bound=upstream),),
        refuse=refuse,
    )


_STEP = "(step)^2 / (0.25 * elements) for encodings of 4, 5 and 8 bits"
_COMPUTE, _MATERIALIZE = Dimension.COMPUTE, Dimension.MATERIALIZE
MUL_MAT = _family("MUL_MAT", "matmul", _COMPUTE, PRODUCT, "NMSE 5e-4", True)
MUL_MAT_ID = _family("MUL_MAT_ID", "moe_matmul", _COMPUTE, PRODUCT, "NMSE 5e-4", True)
OUT_PROD = _family("OUT_PROD", "out_prod", _COMPUTE, OUTER, "NMSE 5e-4", True)
GET_ROWS = _family("GET_ROWS", "get_rows", _MATERIALIZE, BIT_EXACT.derivation, "NMSE 1e-7", True)
GET_ROWS_I32 = _family("GET_ROWS", "get_rows", _MATERIALIZE, BIT_EXACT.derivation, "NMSE 1e-7", False)
GET_ROWS_BACK = _family("GET_ROWS_BACK", "get_rows_back", _MATERIALIZE, GRADIENT, "NMSE 1e-7", True)
GET_ROWS_BACK_I32 = _family("GET_ROWS_BACK", "get_rows_back", _MATERIALIZE, GRADIENT, "NMSE 1e-7", False)
SET_ROWS = _family("SET_ROWS", "set_rows", _MATERIALIZE, COPY, f"NMSE 1e-7, {_STEP}", True)
CPY = _family("CPY", "cpy", _MATERIALIZE, COPY, f"NMSE 0 for the same type, 1e-6, {_STEP}", True)
CPY_I32 = _family("CPY", "cpy", _MATERIALIZE, COPY, "NMSE 0 for the same type", False)

FAMILIES = (
    *(MUL_MAT, MUL_MAT_ID, OUT_PROD, GET_ROWS, GET_ROWS_I32, GET_ROWS_BACK, GET_ROWS_BACK_I32),
    *(SET_ROWS, CPY, CPY_I32),
)
_OPS = {family.name: family.upstream[0].test for family in FAMILIES}
