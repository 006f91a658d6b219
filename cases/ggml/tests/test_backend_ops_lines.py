"""No line of upstream's list is lost on the way to a case, and upstream's bounds are those that it prints."""

from __future__ import annotations

from collections import Counter

import pytest

from cases.ggml.backend_ops import FAMILIES, case_id, encoding_of, line_of, upstream_bound
from cases.ggml.family import present
from cases.upstream.backend_ops import OPS, load_cases
from cases.upstream.inventory import load_inventory

CASES = [case for family in FAMILIES for case in family.cases()]
LINES = [line for line in load_cases() if (found := encoding_of(line)) is None or present([found])]


def test_a_line_of_upstreams_list_has_no_case() -> None:
    assert len(load_cases()) == 4513
    assert len(CASES) == len(LINES)
    assert Counter(case_id(line) for line in LINES) == Counter(case.id for case in CASES)


def test_two_cases_are_one_line() -> None:
    assert {line_of(case) for case in CASES} == set(LINES)


def test_a_case_stands_for_another_line_than_its_id_says() -> None:
    for case in CASES:
        line = line_of(case)
        assert case_id(line) == case.id
        assert case.upstream[0].test == line.op


def test_an_id_cannot_be_printed_or_passed_to_a_shell_unquoted() -> None:
    for case in CASES:
        assert case.id.isprintable()
        assert not set(case.id) & set(" \t[]*?'\"$&;|<>(){}")


def test_the_encoding_of_a_case_is_not_one_of_its_line() -> None:
    for case in CASES:
        line = line_of(case)
        assert case.encoding in line.encodings if case.encoding else not line.encodings
        # Of two types the quantized one decides whose row the case belongs to.
        assert not line.quantized_types or case.encoding == f"ggml.{line.quantized_types[0].lower()}"


@pytest.mark.parametrize(
    ("op", "text", "bound"),
    [
        ("MUL_MAT", "type_a=q4_0,", 5e-4),
        ("OUT_PROD", "type_a=q4_0,", 5e-4),
        ("GET_ROWS", "type=q4_0,", 1e-7),
        ("SET_ROWS", "type=q4_K,", 1e-7),
        # A step of 1/8 in 256 x 1 x 1 x 3 numbers.
        ("SET_ROWS", "type=q4_0,type_idx=i64,ne=[256,5,1,3],nr23=[1,1],r=1,v=0", (1 / 8) ** 2 / (0.25 * 768)),
        (
            "SET_ROWS",
            "type=q8_0,type_idx=i64,ne=[256,5,1,3],nr23=[1,1],r=1,v=0",
            (1 / 64) ** 2 / (0.25 * 768),
        ),
        ("CPY", "type_src=q4_0,type_dst=q4_0,", 0.0),
        ("CPY", "type_src=q4_0,type_dst=f32,", 1e-6),
        ("CPY", "type_src=f32,type_dst=q4_K,ne_src=[256,4,4,4]", 1e-6),
        ("CPY", "type_src=f32,type_dst=iq4_nl,ne_src=[256,4,4,4]", (1 / 4) ** 2 / (0.25 * 16384)),
        ("CPY", "type_src=f32,type_dst=q5_1,ne_src=[256,4,4,4]", (1 / 16) ** 2 / (0.25 * 16384)),
    ],
)
def test_an_upstream_bound_is_not_upstreams(op: str, text: str, bound: float) -> None:
    found = {upstream_bound(line) for line in LINES if line.op == op and line.text.startswith(text)}
    assert found == {bound}


def test_the_inventory_counts_other_cases_than_there_are() -> None:
    (file,) = (f for f in load_inventory("llama.cpp").files if f.path == "tests/test-backend-ops.cpp")
    counts = Counter(line.op for line in load_cases())
    assert {test.name: test.cases for test in file.tests} == {op: counts[op] for op in OPS}
    assert {test.fate.state for test in file.tests} == {"ported"}
