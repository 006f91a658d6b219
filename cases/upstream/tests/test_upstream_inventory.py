"""The inventory of upstream tests: nothing lost on the way, nothing that could be lost later without a red test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cases.upstream.backend_ops import load_cases
from cases.upstream.inventory import DATA, FILES, Check, Fate, fates, load_all, load_inventory, read_inventory
from harness.errors import BadInput, UsageProblem
from harness.rows.load import load_rows

TOTALS = {
    "llama.cpp": (7, 15, 4966),
    "vllm": (84, 463, 18722),
    "mlx": (6, 42, 2902),
    "mlx-lm": (4, 11, 14),
    "vllm-gguf-plugin": (1, 5, 1152),
}


@pytest.mark.parametrize("engine", FILES)
def test_no_upstream_test_of_an_engine_is_lost(engine: str):
    inventory = load_inventory(engine)
    tests = list(inventory.tests())
    assert (len(inventory.files), len(tests), sum(test.cases or 0 for _, test in tests)) == TOTALS[engine]
    assert inventory.engine == engine


def test_536_tests_in_102_files_with_27756_cases():
    tests = [test for inventory in load_all() for _, test in inventory.tests()]
    assert sum(len(inventory.files) for inventory in load_all()) == 102
    assert len(tests) == 536
    assert sum(test.cases or 0 for test in tests) == 27756


def test_every_test_has_exactly_one_fate():
    counts = fates(load_all())
    assert set(counts) == {"ported", "skipped", "not_applicable", "unaccounted"}
    assert sum(counts.values()) == 536


def test_no_test_names_a_row_that_does_not_exist():
    rows = load_rows()
    for inventory in load_all():
        for file, test in inventory.tests():
            assert set(test.rows) <= set(rows), (file.path, test.name)
            assert test.fate.row is None or test.fate.row in rows, (file.path, test.name)


def test_rows_without_an_upstream_test_are_known():
    named = {row for inventory in load_all() for _, test in inventory.tests() for row in test.rows}
    upstream = {
        row.id for row in load_rows().values() if row.origin == "upstream" and row.family != "gguf-presets"
    }
    assert upstream - named == {
        "QUANT-GGUF-COMPUTE",
        "QUANT-GGUF-CPU-THREADPOOL",
        "QUANT-GGUF-KEEPQ-LOADER",
        "QUANT-MLX-MIXED",
        "QUANT-MLX-IMPORT",
    }


def test_every_file_says_what_it_was_read_from():
    for name in FILES.values():
        text = (DATA / name).read_text(encoding="utf-8")
        assert text.startswith("# What "), name
        sources = read_inventory(DATA / name).sources
        assert sources[0].commit, name


def test_what_a_test_inherits_from_its_file_is_filled_in():
    file = next(file for file in load_inventory("vllm").files if file.path.endswith("test_awq_triton.py"))
    assert all(test.rows == ("QUANT-AWQ",) and test.hardware == file.hardware for test in file.tests)


def test_the_retired_block_int8_test_is_kept_with_its_history():
    file = next(file for file in load_inventory("vllm").files if file.path.endswith("test_block_int8.py"))
    assert file.absent_from == ("0.33.0",)
    assert "QUANT-INT8-BLOCK" in file.rows
    assert any("gone in 0.28.0" in past.where for past in load_inventory("vllm").history)


def test_an_upstream_bound_survives_as_a_number():
    file = next(
        file for file in load_inventory("vllm").files if file.path.endswith("test_cutlass_scaled_mm.py")
    )
    bounds = [check.rtol for test in file.tests for check in test.checks if check.kind == "assert_close"]
    assert 0.5 in bounds


def test_bounds_of_quantize_fns_are_those_of_its_source():
    file = next(f for f in load_inventory("llama.cpp").files if f.path == "tests/test-quantize-fns.cpp")
    assert file.bounds["total_error"]["default"] == 0.002
    assert file.bounds["reference_error"] == 0.0001
    assert file.bounds["dot_error"]["default"] == 0.02


def test_the_counts_of_backend_ops_are_those_of_its_case_list():
    file = next(f for f in load_inventory("llama.cpp").files if f.path == "tests/test-backend-ops.cpp")
    listed = Counter(case.op for case in load_cases())
    assert {test.name: test.cases for test in file.tests} == listed


def broken(tmp_path: Path, old: str, new: str) -> Path:
    text = (DATA / "mlx_lm.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "mlx_lm.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


BROKEN = {
    "a test that vanished": ("tests: 11,", "tests: 12,", "totals as its tests add up"),
    "a case that vanished": ("cases: 14}", "cases: 15}", "totals as its tests add up"),
    "a fate of another name": ("state: skipped", "state: forgotten", "'unaccounted'"),
    "ported without a place": ("state: skipped", "state: ported", "where, for a ported test"),
    "skipped without a row": ("skipped, row: QUANT-MLX-AFFINE-Q4,", "skipped,", "row and reason"),
    "a test without rows": ("rows: [QUANT-MLX-AFFINE-Q4]", "rows: []", "at least 1 item"),
    "a misspelled field": ("asserts:", "assert:", "no such field"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_inventory_is_refused_by_field(fault: str, tmp_path: Path):
    old, new, says = BROKEN[fault]
    with pytest.raises(BadInput, match=says) as caught:
        read_inventory(broken(tmp_path, old, new))
    assert caught.value.exit_code == 2


def test_an_axis_whose_count_is_not_that_of_its_values_is_refused(tmp_path: Path):
    text = (DATA / "gguf_plugin.yaml").read_text(encoding="utf-8")
    path = tmp_path / "gguf_plugin.yaml"
    path.write_text(text.replace("values: [256, 1024]", "values: [256]", 1), encoding="utf-8")
    with pytest.raises(BadInput, match="as many as there are values"):
        read_inventory(path)


def test_a_check_without_its_bound_or_text_is_refused():
    for fields in ({"kind": "predicate"}, {"kind": "raises"}, {"kind": "opcheck", "rtol": 0.1}):
        with pytest.raises(ValueError, match="Value error"):
            Check.model_validate(fields)


def test_a_test_does_not_apply_without_a_reason():
    with pytest.raises(ValueError, match="a reason, for a test that does not apply"):
        Fate.model_validate({"state": "not_applicable"})


def test_a_fate_keeps_its_place_row_and_reason():
    fate = Fate(state="skipped", row="QUANT-AWQ", reason="needs a device of SM90")
    assert (fate.row, fate.reason) == ("QUANT-AWQ", "needs a device of SM90")


def test_an_unknown_engine_names_the_engines():
    with pytest.raises(UsageProblem, match=r"llama\.cpp, vllm, mlx"):
        load_inventory("sglang")
