"""Recipes: those that are committed time what they promise, and a broken one is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bench.families import timed_families
from harness.bench.recipe import DEFAULT, FOLDER, load_recipe
from harness.bench.tests.series_made import write_recipe
from harness.errors import BadInput, UsageProblem
from harness.rows.load import load_rows
from harness.rows.model import Dimension
from kernels.units import load_units


def in_files() -> set[str]:
    """Every encoding of a row of GGUF encodings."""
    return {
        name
        for row in load_rows().values()
        if row.family == "gguf-encodings" and row.claimable
        for name in row.encodings
    }


def test_an_encoding_of_gguf_files_is_not_timed() -> None:
    assert {work.encoding for work in load_recipe(DEFAULT).works()} == in_files() & set(load_units())


def test_an_encoding_that_gguf_py_decodes_has_no_floor() -> None:
    recipe = load_recipe(DEFAULT)
    with_floor = [name for floor in recipe.floors for name in floor.encodings]
    assert len(with_floor) == len(set(with_floor))
    assert {work.encoding for work in recipe.works()} - set(with_floor) == {"ggml.q1_0", "ggml.q2_0"}


def test_a_case_of_a_recipe_has_no_cell() -> None:
    rows = load_rows()
    cases = [case for family in timed_families().values() for case in family.cases()]
    assert cases
    for case in cases:
        assert case.dimension is Dimension.PERF
        assert case.rows
        assert all(case.backend in rows[name].coverage(Dimension.PERF).backends for name in case.rows), (
            case.id
        )


def test_a_family_that_is_timed_has_dead_values() -> None:
    assert [family.dead_values() for family in timed_families().values()] == [[]]


def test_upstreams_perf_test_lost_an_op_or_a_size() -> None:
    recipe = load_recipe(FOLDER / "test-quantize-perf.yaml")
    (series,) = recipe.series
    assert set(series.ops) == {"quantize", "quantize_row", "dequantize", "quantize_activation", "vec_dot"}
    assert list(series.shapes) == [(1, 4096), (1, 65536), (1, 655360), (1, 65536000)]
    assert (recipe.warmup, recipe.rounds) == (5, 10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("oracle: engine", "oracle: nobody"), "an arm called nobody"),
        (("claims: ours", "claims: engine"), "claims names an arm of ours"),
        (("rounds: 5", "rounds: 2"), "rounds"),
        (("noise_limit: 0.1", "noise_limit: 0"), "noise_limit"),
        (("warmup: 1", "warmup: 0"), "warmup"),
        (("[dequantize]", "[dequantise]"), "ops"),
        (("[dequantize]", "[dequantize, quantize]"), "one op where there is a family"),
        (("name: engine", "name: ours"), "two arms have one name"),
        (("seed: 1", "seed: 1\nseeds: 2"), "did you mean seed"),
    ],
)
def test_a_broken_recipe_runs(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        load_recipe(write_recipe(tmp_path, change))
    assert words in str(refused.value)


def test_a_floor_for_nothing_is_met_by_nobody(tmp_path: Path) -> None:
    more = "floors:\n  - {arm: ours, against: engine, at_least: 1, encodings: [ggml.q4_k]}\n"
    with pytest.raises(BadInput, match="timed by none"):
        load_recipe(write_recipe(tmp_path, more=more))


def test_a_typo_in_the_filter_is_green(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no case of the recipe fits"):
        load_recipe(write_recipe(tmp_path)).chosen("*q9_k*")
