"""A broken row file is refused, and the message names file, row and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput, UsageProblem
from harness.rows.load import load_rows, row, rows_of_family

GOOD = """
family: test
title: Test
order: 1
sources: [nowhere]
defaults: {surface: gguf, origin: ours, oracles: [formats], scope: all, dimensions: all}
profiles:
  all:
    Recognize: {required: [cpu]}
    Materialize: {required: [cpu], optional: [triton@interpreter]}
    Compute: {not_applicable: nothing is multiplied}
    E2E: {not_applicable: no model}
    Perf: {not_applicable: no kernel}
rows:
  - {id: QUANT-ONE, item: one, encodings: [ggml.q4_0], bits_per_weight: [4.5], block_elems: [32]}
  - {id: QUANT-TWO, item: two, alias_of: QUANT-ONE, claimable: false}
"""


def load(folder: Path, text: str) -> None:
    (folder / "test.yaml").write_text(text, encoding="utf-8")
    load_rows(folder)


def test_the_file_that_the_others_are_broken_from_is_good(tmp_path: Path):
    load(tmp_path, GOOD)
    assert list(load_rows(tmp_path)) == ["QUANT-ONE", "QUANT-TWO"]


BROKEN = {
    "an interpreter that would complete a dimension": (
        "Recognize: {required: [cpu]}",
        "Recognize: {required: [triton@interpreter]}",
        "dimensions.Recognize",
        "proves only emulated",
    ),
    "a backend that does not exist": ("required: [cpu],", "required: [gpu],", "required.0", "a backend: cpu"),
    "n/a without a reason": (
        "E2E: {not_applicable: no model}",
        'E2E: {not_applicable: ""}',
        "dimensions.E2E.not_applicable",
        "at least 1 character",
    ),
    "n/a beside backends": (
        "E2E: {not_applicable: no model}",
        "E2E: {not_applicable: no model, required: [cpu]}",
        "dimensions.E2E",
        "not both",
    ),
    "a dimension left out": ("    Perf: {not_applicable: no kernel}\n", "", "dimensions", "Perf is missing"),
    "a dimension of another name": ("    Perf:", "    Speed:", "dimensions.Speed", "'Perf'"),
    "an unknown dialect": ("ggml.q4_0", "gguf.q4_0", "encodings.0", "ggml, mlx"),
    "an encoding without dialect": ("ggml.q4_0", "q4_0", "encodings.0", "<dialect>.<name>"),
    "an oracle that is no pin": ("oracles: [formats]", "oracles: [gguf]", "oracles.0", "'formats'"),
    "a profile that does not exist": ("dimensions: all}", "dimensions: none}", "dimensions", "a profile"),
    "a misspelled field": ("block_elems: [32]", "block_elem: [32]", "block_elem", "did you mean block_elems"),
    "an id outside the scheme": ("id: QUANT-ONE", "id: one", "id", "match pattern"),
    "an id twice": ("id: QUANT-TWO", "id: QUANT-ONE", "rows[1].id", "not used in test.yaml"),
    "a row without an id": ("{id: QUANT-ONE, item", "{item", "rows[0].id", "a row id"),
    "an alias of nothing": ("alias_of: QUANT-ONE", "alias_of: QUANT-NONE", "alias_of", "a row that exists"),
    "an alias that claims": ("claimable: false", "claimable: true", "(whole)", "claims nothing itself"),
    "neither encoding nor the reason": ("encodings: [ggml.q4_0], ", "", "(whole)", "no_encoding"),
    "no bits at all": ("[4.5]", "[0]", "bits_per_weight", "between 0 and 64"),
    "an empty block": ("block_elems: [32]", "block_elems: [0]", "block_elems", "at least 1"),
    "upstream without a reference": ("origin: ours", "origin: upstream", "(whole)", "upstream reference"),
    "a key twice": ("order: 1", "order: 1\norder: 2", "line", "stands twice"),
    "no YAML at all": ("family: test", "family: [test", "line", "valid YAML"),
    "a field of the file that does not exist": ("title: Test", "titel: Test", "title", "Field required"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_row_file_is_refused_by_field(fault: str, tmp_path: Path):
    old, new, field, says = BROKEN[fault]
    assert old in GOOD
    with pytest.raises(BadInput) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert caught.value.exit_code == 2
    assert caught.value.file == str(tmp_path / "test.yaml")
    assert field in caught.value.field, caught.value
    assert says in str(caught.value)


def test_the_row_is_named_where_only_one_of_many_is_broken(tmp_path: Path):
    with pytest.raises(BadInput, match=r"row QUANT-ONE, encodings\.0"):
        load(tmp_path, GOOD.replace("ggml.q4_0", "ggml.Q4_0"))


def test_a_file_that_names_a_python_object_runs_nothing(tmp_path: Path):
    with pytest.raises(BadInput, match="valid YAML"):
        load(tmp_path, GOOD.replace("title: Test", "title: !!python/object/apply:os.getcwd []"))


def test_an_empty_folder_is_no_empty_list_of_rows(tmp_path: Path):
    with pytest.raises(BadInput, match=r"no \.yaml file"):
        load_rows(tmp_path)


def test_two_files_of_one_family_are_refused(tmp_path: Path):
    (tmp_path / "a.yaml").write_text(GOOD)
    with pytest.raises(BadInput, match="family"):
        load(tmp_path, GOOD)


def test_changing_the_returned_rows_does_not_change_the_next_reading():
    load_rows().clear()
    assert load_rows()


def test_a_mistyped_row_is_answered_with_the_near_names():
    with pytest.raises(UsageProblem, match="did you mean QUANT-GGUF-Q4_K"):
        row("QUANT-GGUF-Q4K")


def test_a_row_of_a_wholly_other_name_is_refused_without_a_guess():
    with pytest.raises(UsageProblem, match=r"no row xyzzy$"):
        row("xyzzy")


def test_an_unknown_family_is_answered_with_the_families():
    with pytest.raises(UsageProblem, match="gguf-encodings, gguf-presets"):
        rows_of_family("gguf")
