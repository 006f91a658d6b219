"""The case list of test-backend-ops: complete, told apart, and read into what a case needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.upstream.backend_ops import OPS, PATH, load_cases
from harness.containers.ggml_types import ggml_types
from harness.errors import BadInput

CASES = load_cases()


def test_no_case_of_the_list_is_lost():
    quantized = [case for case in CASES if case.quantized_types]
    assert len(CASES) == 4513
    assert len(quantized) == 3179
    assert sum(not case.cpu_supported for case in quantized) == 1377
    assert {case.op for case in CASES} == set(OPS)


def test_repeated_lines_stay_cases_of_their_own():
    assert len({case.id for case in CASES}) == len(CASES)
    assert sum(case.occurrence > 1 for case in CASES) == 41


def test_a_list_in_brackets_is_one_parameter():
    case = next(case for case in CASES if case.op == "CPY" and "ne_src=[256,4,4,4]" in case.text)
    assert case.params["ne_src"] == [256, 4, 4, 4]
    assert set(case.params) >= {"type_src", "type_dst", "permute_src", "permute_dst", "_src_transpose"}


def test_index_types_are_no_encodings():
    case = next(
        case for case in CASES if case.op == "SET_ROWS" and case.text.startswith("type=q8_0,type_idx=i32")
    )
    assert case.types == ("q8_0", "i32")
    assert case.quantized_types == ("q8_0",)
    assert case.encodings == ("ggml.q8_0",)


def test_every_encoding_of_a_case_exists():
    known = {entry.encoding for entry in ggml_types().values()}
    for case in CASES:
        assert set(case.encodings) <= known, case.id


def test_the_origin_stands_above_the_list():
    first = PATH.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("#")
    assert "f449e0553" in first


BROKEN = {
    "another header": ("op,params,cpu_supported", "op,params", "line 1", "header"),
    "an op that is not one of the seven": ("GET_ROWS,", "GET_ROW,", "line 2, op", "MUL_MAT"),
    "a parameter without a value": ("type=f32", "type", "line 2, params", "name=value"),
    "support that is neither yes nor no": (",1\n", ",yes\n", "line 2, cpu_supported", "0 or 1"),
    "a column too many": (",1\n", ",1,1\n", "line 2", "3 columns"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_list_is_refused_by_line(fault: str, tmp_path: Path):
    old, new, field, says = BROKEN[fault]
    good = 'op,params,cpu_supported\nGET_ROWS,"type=f32,n=256",1\n'
    path = tmp_path / "cases.csv"
    path.write_text(good.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        load_cases(path)
    assert caught.value.field == field
    assert says in str(caught.value)


def test_a_missing_list_is_bad_input_and_not_a_traceback(tmp_path: Path):
    with pytest.raises(BadInput, match="readable"):
        load_cases(tmp_path / "none.csv")
