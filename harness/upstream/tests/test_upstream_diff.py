"""Differences between two releases: each kind is named, nothing is invented, and what cannot be told is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.upstream.diff import diff
from harness.upstream.model import ChangedTest, Diff
from harness.upstream.tests.trees import AWQ, GPTQ, write_tree

BASE = {
    AWQ: """
        import pytest, torch
        SIZES = [32, 64]
        def close(a, b):
            torch.testing.assert_close(a, b, rtol=0.1, atol=0.1)
        @pytest.mark.parametrize("n", SIZES)
        @pytest.mark.parametrize("bias", [True])
        def test_gemm(n, bias):
            close(n, bias)
            assert rel_diff < 1e-3
        def test_other(): ...
    """,
    GPTQ: "def test_gptq_shuffle_opcheck(): opcheck(1)\n",
}


def compared(tmp_path: Path, changes: dict[str, str | None], base: dict[str, str] = BASE) -> Diff:
    """The diff of a tree with `changes` (None: without the file) against `base`."""
    now = {name: text for name, text in {**base, **changes}.items() if text is not None}
    return diff("vllm", write_tree(tmp_path / "now", now), write_tree(tmp_path / "was", base))


def changed(tmp_path: Path, old: str, new: str) -> ChangedTest:
    assert old in BASE[AWQ]
    report = compared(tmp_path, {AWQ: BASE[AWQ].replace(old, new)})
    assert report.differs
    assert (report.added_files, report.removed_files, report.added_tests, report.removed_tests) == ((),) * 4
    assert len(report.changed) == 1
    return report.changed[0]


def test_equal_trees_do_not_differ(tmp_path: Path):
    report = compared(tmp_path, {})
    assert not report.differs
    assert report.counts.same == report.counts.tests == 3
    assert report.not_comparable == ()


def test_a_file_that_is_gone_is_named_with_its_tests(tmp_path: Path):
    report = compared(tmp_path, {GPTQ: None})
    assert [(file.path, file.tests) for file in report.removed_files] == [
        (GPTQ, ("test_gptq_shuffle_opcheck",))
    ]
    assert report.counts.removed_tests == 1


def test_a_new_file_counts_by_its_folder_or_its_name_and_says_why(tmp_path: Path):
    text = "def test_a(): ...\n"
    report = compared(
        tmp_path,
        {
            "tests/quantization/test_next.py": text,
            "tests/elsewhere/test_nvfp4_thing.py": text,
            "tests/elsewhere/test_sampling.py": text,
            "tests/quantization/helpers.py": text,
        },
    )
    assert {file.path: file.reason for file in report.added_files} == {
        "tests/quantization/test_next.py": "quantization methods and their configurations",
        "tests/elsewhere/test_nvfp4_thing.py": "its path names a quantized format, and no rule covers it yet",
    }


def test_what_a_rule_leaves_out_is_listed_and_not_silent(tmp_path: Path):
    report = compared(tmp_path, {"tests/kernels/moe/test_nvfp4_moe.py": "def test_a(): ...\n"})
    assert list(report.outside.values()) == [("tests/kernels/moe/test_nvfp4_moe.py",)]
    assert not report.differs


def test_tests_that_come_and_go_are_named(tmp_path: Path):
    report = compared(tmp_path, {AWQ: BASE[AWQ].replace("test_other", "test_another")})
    assert [test.test for test in report.added_tests] == ["test_another"]
    assert [test.test for test in report.removed_tests] == ["test_other"]


def test_values_gained_and_lost_are_named(tmp_path: Path):
    change = changed(tmp_path, "[32, 64]", "[64, 128, 256]")
    axis = change.axes[0]
    assert (axis.names, axis.was, axis.now) == (("n",), 2, 3)
    assert (axis.gained, axis.lost) == (("128", "256"), ("32",))
    assert change.bounds == ()


def test_a_parameter_that_is_new_or_gone_is_named(tmp_path: Path):
    change = changed(tmp_path, '"bias", [True]', '"use_bias", [True]')
    assert [(axis.names, axis.was, axis.now) for axis in change.axes] == [
        (("bias",), 1, None),
        (("use_bias",), None, 1),
    ]


def test_a_bound_that_a_helper_holds_is_not_missed(tmp_path: Path):
    change = changed(tmp_path, "rtol=0.1", "rtol=0.5")
    bound = change.bounds[0]
    assert (bound.was, bound.now, bound.via) == ("rtol=0.1, atol=0.1", "rtol=0.5, atol=0.1", "close")


def test_a_predicate_that_is_loosened_is_named(tmp_path: Path):
    bound = changed(tmp_path, "rel_diff < 1e-3", "rel_diff < 1e-2").bounds[0]
    assert (bound.was, bound.now) == ("rel_diff < 0.001", "rel_diff < 0.01")


def test_an_assertion_that_is_dropped_is_named(tmp_path: Path):
    bound = changed(tmp_path, "            assert rel_diff < 1e-3\n", "").bounds[0]
    assert (bound.was, bound.now) == ("rel_diff < 0.001", None)


def test_a_test_that_is_switched_off_is_named(tmp_path: Path):
    change = changed(tmp_path, "        def test_other", "        @pytest.mark.skip\n        def test_other")
    assert [(bound.was, bound.now) for bound in change.bounds] == [("runs", "always skipped")]


def test_another_text_alone_is_no_difference_but_is_counted(tmp_path: Path):
    report = compared(tmp_path, {AWQ: BASE[AWQ].replace("def test_other(): ...", "def test_other(): run()")})
    assert not report.differs
    assert [test.test for test in report.text_only] == ["test_other"]


def test_values_that_only_running_tells_are_counted_unless_nothing_changed(tmp_path: Path):
    base = {**BASE, AWQ: BASE[AWQ].replace("[32, 64]", "sizes_of(device)")}
    assert compared(tmp_path / "a", {}, base).not_comparable == ()
    now = {AWQ: base[AWQ].replace("sizes_of(device)", "sizes_of(host)")}
    report = compared(tmp_path / "b", now, base)
    assert [left.test for left in report.not_comparable] == ["test_gemm"]


def test_a_file_that_cannot_be_read_is_neither_gone_nor_silent(tmp_path: Path):
    report = compared(tmp_path, {GPTQ: "def test_gptq(:\n"})
    assert list(report.unreadable) == [GPTQ]
    assert report.removed_files == ()
    assert report.counts.removed_tests == 0
    assert report.differs


@pytest.mark.parametrize("engine", ["vllm", "mlx", "mlx-lm", "llama.cpp", "vllm-gguf-plugin"])
def test_every_file_of_an_inventory_is_within_its_scope(engine: str):
    from cases.upstream.inventory import load_inventory
    from harness.upstream.scope import scope_of

    scope = scope_of(engine)
    for file in load_inventory(engine).files:
        assert scope.is_test(file.path), file.path
        assert scope.rule(file.path) is not None, file.path
        names = {test.name for test in file.tests}
        assert set(scope.symbols.get(file.path, {})) <= names, file.path


def test_the_cpp_facts_hold_the_bounds_that_the_inventory_states():
    from cases.upstream.inventory import load_inventory
    from harness.upstream.known import cpp_facts

    path = "tests/test-quantize-fns.cpp"
    bounds = next(file for file in load_inventory("llama.cpp").files if file.path == path).bounds
    constants = cpp_facts()["llama.cpp"][path].constants

    def number(name: str) -> float:
        return float(constants[name].rstrip("f"))

    assert number("MAX_QUANTIZATION_TOTAL_ERROR") == bounds["total_error"]["default"]
    assert number("MAX_QUANTIZATION_REFERENCE_ERROR") == bounds["reference_error"]
    assert number("MAX_DOT_PRODUCT_ERROR") == bounds["dot_error"]["default"]
    assert number("MAX_DOT_PRODUCT_ERROR_TERNARY") == bounds["dot_error"]["TQ1_0"]
