"""An updated inventory loses no fate and no word, and hides neither what is new nor what is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from cases.upstream.inventory import DATA, Inventory, read_inventory
from harness.cli.upstream import command
from harness.upstream.dump import comment_of, dumped, plain
from harness.upstream.tests.trees import AWQ, GPTQ, write_tree
from harness.upstream.update import update

INT8 = "tests/kernels/quantization/test_block_int8.py"
COMMENT = "# What a small engine tests.\n# A second line.\n"
SMALL = f"""{COMMENT}engine: vllm
sources:
  - {{project: vLLM, version: 0.26.0, commit: f2654939e, use: the inventory is read here}}
totals: {{files: 2, tests: 3, cases: 5}}
history:
  - path: {INT8}
    where: In 0.24.0 to 0.27.0.

files:
  - path: {AWQ}
    summary: Triton AWQ
    hardware: CUDA
    needs_checkpoint: false
    rows: [QUANT-AWQ]
    tests:
      - name: test_gemm
        line: 1
        cases: 2
        axes:
          - {{names: [n], count: 2, values: [32, 64]}}
        asserts: words that a person wrote
        checks:
          - {{kind: assert_close, rtol: 0.1, atol: 0.1}}
        notes:
          - a note of ours
        fate: {{state: ported, where: [cases/awq/test_gemm.py]}}

      - name: test_gone
        line: 9
        cases: 1
        fate: {{state: skipped, row: QUANT-AWQ, reason: no unit of that decode is written yet}}

  - path: {INT8}
    summary: block-int8 matmul
    hardware: CUDA
    needs_checkpoint: false
    rows: [QUANT-INT8-BLOCK]
    tests:
      - name: test_w8a8_block_int8_matmul
        line: 42
        cases: 2
        axes:
          - {{names: [m], count: 2, values: [1, 33]}}
        fate: {{state: skipped, row: QUANT-INT8-BLOCK, reason: no unit of that product is written yet}}
"""
TREE = {
    AWQ: """
        import pytest, torch
        @pytest.mark.parametrize("n", [32, 64, 128])
        def test_gemm(n):
            torch.testing.assert_close(n, n, rtol=0.2, atol=0.1)
        @pytest.mark.parametrize("k", [1, 2])
        @pytest.mark.skip(reason="unstable")
        def test_new(k):
            assert k < 0.5
    """,
    GPTQ: "def test_gptq_shuffle_opcheck(): opcheck(1)\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small inventory."""
    (tmp_path / "vllm.yaml").write_text(SMALL, encoding="utf-8")
    (tmp_path / "cpp_facts.yaml").write_text("engines: {}\n", encoding="utf-8")
    return tmp_path


def updated(folder: Path, tree: dict[str, str] = TREE) -> Inventory:
    for rewrite in update("vllm", write_tree(folder / "vllm-0.28.0", tree), folder).rewrites:
        rewrite.path.write_text(rewrite.after, encoding="utf-8")
    return read_inventory(folder / "vllm.yaml")


def test_fates_and_words_of_a_person_are_kept(folder: Path):
    test = updated(folder).files[0].tests[0]
    assert test.fate.where == ("cases/awq/test_gemm.py",)
    assert (test.asserts, test.notes) == ("words that a person wrote", ("a note of ours",))
    assert (folder / "vllm.yaml").read_text().startswith(COMMENT)


def test_parameters_bounds_and_counts_are_those_of_the_tree(folder: Path):
    test = updated(folder).files[0].tests[0]
    assert test.axes[0].values == (32, 64, 128)
    assert test.cases == 3
    assert test.checks[0].rtol == 0.2
    assert test.digest is not None


def test_a_new_test_is_unaccounted_and_never_ported_by_itself(folder: Path):
    inventory = updated(folder)
    new = {
        (file.path, test.name): test for file, test in inventory.tests() if test.fate.state == "unaccounted"
    }
    assert set(new) == {(AWQ, "test_new"), (GPTQ, "test_gptq_shuffle_opcheck")}
    test = new[AWQ, "test_new"]
    assert (test.cases, test.always_skipped, test.checks[0].text) == (2, True, "k < 0.5")


def test_what_is_gone_is_retired_with_its_fate_and_history(folder: Path):
    inventory = updated(folder)
    gone = {file.path: file for file in inventory.retired}
    assert set(gone) == {AWQ, INT8}
    assert gone[INT8].gone_in == "0.28.0"
    assert gone[INT8].tests[0].fate.row == "QUANT-INT8-BLOCK"
    assert [test.name for test in gone[AWQ].tests] == ["test_gone"]
    assert inventory.history[0].path == INT8
    assert (inventory.totals.files, inventory.totals.tests, inventory.totals.cases) == (3, 5, 9)
    assert inventory.sources[-1].version == "0.28.0"


def test_a_second_update_changes_nothing(folder: Path):
    updated(folder)
    assert update("vllm", folder / "vllm-0.28.0", folder).rewrites == ()


def test_a_test_that_comes_back_is_not_lost_among_the_retired(folder: Path):
    updated(folder)
    back = {**TREE, INT8: "def test_w8a8_block_int8_matmul(): ...\n"}
    inventory = updated(folder, back)
    assert any(file.path == INT8 for file in inventory.files)
    keys = [(file.path, test.name) for file, test in inventory.tests()]
    assert len(keys) == len(set(keys))
    test = next(test for file, test in inventory.tests() if file.path == INT8)
    assert test.fate.state == "skipped"


def test_a_file_that_cannot_be_read_keeps_its_place(folder: Path):
    inventory = updated(folder, {**TREE, INT8: "def test_w8a8(:\n"})
    assert any(file.path == INT8 for file in inventory.files)
    assert all(file.path != INT8 for file in inventory.retired)


@pytest.mark.parametrize("name", ["vllm.yaml", "mlx.yaml", "mlx_lm.yaml"])
def test_the_files_are_in_canonical_form_so_that_a_diff_shows_changes_alone(name: str):
    text = (DATA / name).read_text(encoding="utf-8")
    assert dumped(yaml.safe_load(text), comment_of(text)) == text


def test_the_cpp_facts_are_in_canonical_form():
    text = (DATA / "cpp_facts.yaml").read_text(encoding="utf-8")
    assert comment_of(text) + plain(yaml.safe_load(text)) == text


def test_a_file_that_cannot_be_read_is_passed_over_in_silence(folder: Path):
    tree = write_tree(folder / "vllm-0.28.0", {**TREE, GPTQ: "def broken(:\n"})
    assert set(update("vllm", tree, folder).unreadable) == {GPTQ}
    options = ["update", "vllm", "--tree", str(tree), "--inventory", str(folder)]
    for _ in range(2):
        ran = CliRunner().invoke(command, options, standalone_mode=False)
        assert f"! {GPTQ}: not read: " in ran.stdout
        assert ran.return_value == 1


def test_half_of_a_surrogate_pair_ends_the_update(folder: Path):
    source = TREE[AWQ].replace("[1, 2]", '["\\ud800", "k"]')
    updated(folder, {**TREE, AWQ: source})
    assert r"\ud800" in (folder / "vllm.yaml").read_text(encoding="utf-8")
