"""What turns evidence outdated, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.evidence.code_hash import (
    COMPARATOR,
    DATA,
    JUDGING,
    code_hash_of,
    relative_files,
    relevant_files,
)
from harness.paths import REPOSITORY

DEFINED = ("cases/generators.py",)


def hash_of(root: Path, encoding: str | None = "ggml.q4_k", **changes: object) -> str:
    words = {"op": "dequantize", "backend": "cpu", "bound": "the same bits", "files": DEFINED, **changes}
    return code_hash_of(encoding=encoding, root=root, **words)


def edit(path: Path) -> None:
    """One character more."""
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.parametrize(
    "name",
    [
        *("kernels/ggml/q4_k/reference.py", "kernels/ggml/q4_k/unit.yaml", "kernels/common/numpy/blocks.py"),
        *("cases/generators.py", "cases/special_values.py", "harness/comparison/accumulate.py"),
        *("harness/comparison/bounds.py", "harness/comparison/locate.py"),
    ],
)
def test_a_change_in_what_the_case_uses_goes_unnoticed(tree: Path, name: str) -> None:
    (tree / "cases" / "generators.py").write_text(
        (tree / "cases" / "generators.py").read_text() + "from kernels.common.numpy import blocks\n"
    )
    before = hash_of(tree)
    edit(tree / name)
    assert hash_of(tree) != before


@pytest.mark.parametrize(
    "name",
    ["kernels/ggml/q8_0/reference.py", "kernels/ggml/tables/ksigns.npy", "kernels/ggml/q4_k/triton.py"],
)
def test_a_change_elsewhere_makes_a_case_outdated(tree: Path, name: str) -> None:
    before = hash_of(tree)
    (tree / name).touch()
    edit(tree / name)
    assert hash_of(tree) == before


@pytest.mark.parametrize(
    "name",
    [
        *(f"harness/plugin/{name}.py" for name in ("evidence", "judging", "opinions", "outcome", "verdict")),
        *("harness/guard.py", "conftest.py", "cases/conftest.py"),
    ],
)
def test_a_judge_is_broken_for_one_run_and_its_passes_stay(tree: Path, name: str) -> None:
    before = hash_of(tree)
    edit(tree / name)
    assert hash_of(tree) != before


def test_a_conftest_that_appears_beside_a_definition_changes_nothing(tree: Path) -> None:
    (tree / "cases" / "sub").mkdir()
    (tree / "cases" / "sub" / "family.py").write_text("")
    before = hash_of(tree, files=("cases/sub/family.py",)), hash_of(tree)
    (tree / "cases" / "sub" / "conftest.py").write_text("")
    after = hash_of(tree, files=("cases/sub/family.py",)), hash_of(tree)
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_data_file_that_a_module_reads_is_left_out(tree: Path) -> None:
    (tree / "cases" / "reader.py").write_text("from harness.containers.ggml_types import ggml_types\n")
    before = hash_of(tree, files=("cases/reader.py",)), hash_of(tree)
    edit(tree / "harness" / "containers" / "ggml_types.yaml")
    after = hash_of(tree, files=("cases/reader.py",)), hash_of(tree)
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_file_that_the_hash_names_has_moved() -> None:
    named = {*COMPARATOR, *JUDGING, *DATA, *(name for files in DATA.values() for name in files)}
    assert not {name for name in named if not (REPOSITORY / name).is_file()}


def test_a_table_that_the_unit_names_is_left_out(tree: Path) -> None:
    before = hash_of(tree, "ggml.iq2_xxs"), hash_of(tree, "ggml.iq4_nl")
    edit(tree / "kernels" / "ggml" / "tables" / "ksigns.npy")
    after = hash_of(tree, "ggml.iq2_xxs"), hash_of(tree, "ggml.iq4_nl")
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_the_activation_encoding_is_left_out_of_a_product_and_counted_for_a_decode(tree: Path) -> None:
    before = hash_of(tree), hash_of(tree, op="matmul")
    edit(tree / "kernels" / "ggml" / "q8_k" / "reference.py")
    after = hash_of(tree), hash_of(tree, op="matmul")
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_each_backend_sees_its_own_files_and_those_of_all(tree: Path) -> None:
    folder = tree / "kernels" / "ggml" / "q4_k"
    for name in ("triton.py", "decode.cuh", "decode.metal"):
        (folder / name).write_text("")
    seen = {
        backend: {
            Path(name).name for name in relevant_files("dequantize", "ggml.q4_k", backend, DEFINED, tree)
        }
        for backend in ("cpu", "triton@sm_90", "cuda@sm_90", "metal@shim")
    }
    own = {"triton.py", "decode.cuh", "decode.metal"}
    assert {backend: names & own for backend, names in seen.items()} == {
        "cpu": set(),
        "triton@sm_90": {"triton.py"},
        "cuda@sm_90": {"decode.cuh"},
        "metal@shim": {"decode.metal"},
    }
    assert all({"reference.py", "unit.yaml"} <= names for names in seen.values())


def test_shared_code_is_found_through_imports_of_every_form_and_includes(tree: Path) -> None:
    shared = tree / "kernels" / "common" / "sample"
    shared.mkdir()
    for name in ("plain", "named", "relative", "nested", "unused"):
        (shared / f"{name}.py").write_text("")
    (shared / "plain.py").write_text("from . import relative\n")
    (shared / "dot.cuh").write_text('#include "inner.cuh"\n')
    (shared / "inner.cuh").write_text("")
    unit = tree / "kernels" / "ggml" / "q4_k"
    (unit / "triton.py").write_text(
        "import kernels.common.sample.plain\nfrom kernels.common.sample import named\n"
        "def late():\n    from kernels.common.sample.nested import thing\n"
    )
    (unit / "decode.cuh").write_text('# include "../../common/sample/dot.cuh"\n')
    triton = {
        Path(name).name for name in relevant_files("matmul", "ggml.q4_k", "triton@sm_90", DEFINED, tree)
    }
    assert {"plain.py", "named.py", "relative.py", "nested.py"} <= triton
    assert "unused.py" not in triton
    cuda = {Path(name).name for name in relevant_files("matmul", "ggml.q4_k", "cuda@sm_90", DEFINED, tree)}
    assert {"dot.cuh", "inner.cuh"} <= cuda


@pytest.mark.parametrize("change", [{"op": "quantize"}, {"bound": "1e-3"}, {"backend": "triton@sm_90"}])
def test_another_op_bound_or_backend_keeps_the_hash(tree: Path, change: dict[str, str]) -> None:
    assert hash_of(tree, **change) != hash_of(tree)


def test_a_broken_unit_stops_the_matrix_instead_of_turning_stale(tree: Path) -> None:
    before = hash_of(tree)
    (tree / "kernels" / "ggml" / "q4_k" / "unit.yaml").write_text("title: [")
    assert hash_of(tree) != before


def test_a_definition_file_that_is_gone_is_named(tree: Path) -> None:
    with pytest.raises(BadInput, match=r"gone\.py"):
        hash_of(tree, files=("cases/gone.py",))


def test_a_definition_file_outside_the_repository_is_refused(tmp_path: Path) -> None:
    assert relative_files([REPOSITORY / "cases" / "census.py"]) == ("cases/census.py",)
    with pytest.raises(BadInput, match="elsewhere"):
        relative_files([tmp_path / "x.py"])


def test_caches_and_hidden_files_change_the_hash(tree: Path) -> None:
    before = hash_of(tree)
    folder = tree / "kernels" / "ggml" / "q4_k"
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "reference.cpython-311.pyc").write_bytes(b"x")
    (folder / ".reference.py.swp").write_bytes(b"x")
    assert hash_of(tree) == before
