"""What the audit says of formats that are not finished: nothing that is missing may look as if it were there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.audit.run import audit
from harness.audit.unfinished import CODE, find
from harness.newformat.tests.conftest import DATA, begin
from kernels.method import check_method

BAR = "kernels/bnb/nf4/bar.yaml"
JUDGED = "cases/units/test_bnb_nf4.py"


@pytest.fixture
def finished(tree: Path) -> Path:
    """A tree with a format of which nothing is left to do."""
    begin(tree, "an encoding")
    for path in DATA.rglob("*.txt"):
        shutil.copy(path, tree / path.relative_to(DATA).with_suffix(""))
    for name in ("decode.cuh", "decode.metal"):
        (tree / "kernels/bnb/nf4" / name).unlink()
    assert list(find(tree)) == []
    return tree


def said(tree: Path) -> list[str]:
    return [f"{finding.file}: {finding.message}" for finding in find(tree)]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path.name} holds {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (BAR, "  known: {file: kernels/bnb/nf4/known.yaml}", "", "known: it is not in bar.yaml"),
        (BAR, "not_applicable: \"no shared Metal", "not_applicable: \"todo: Metal", "metal: vague reason"),
        (BAR, "row: QUANT-BNB", "row: QUANT-BNB-X", "row: there is no row QUANT-BNB-X"),
        (BAR, "row: QUANT-BNB", "row: QUANT-AWQ", "row: the encodings of QUANT-AWQ are others"),
        (BAR, "kind: encoding", "kind: encodings", "kind: wanted"),
        (BAR, "  perf: {not_applicable", "  speed: {not_applicable", "speed: there is no such part"),
        (BAR, ", function: test_no_edge_of_a_tile_is_wrong", "", "accuracy: bar.yaml names no function"),
        ("kernels/bnb/nf4/unit.yaml", "rows: [QUANT-BNB]", "rows: [QUANT-AWQ]", "row: unit.yaml names QUANT-AWQ"),
        ("kernels/bnb/nf4/unit.yaml", "block_bytes: 36", "block_bytes: 37", "row: unit.yaml, block_bytes"),
        (JUDGED, "def test_what_another_program_wrote", "def check_what_another", "compatibility: cases/units/test_"),
        (
            "kernels/bnb/nf4/reference.py",
            "    n = len(blocks)\n",
            "    raise NotImplementedError\n",
            "reference: it is a stub",
        ),
        ("cases/units/bnb_nf4.py", "def formula(", "def other(", "formula: cases/units/bnb_nf4.py has no function"),
        (
            "harness/rows/data/vllm_methods.yaml",
            "    item: bitsandbytes\n",
            '    item: "UNWRITTEN: bnb.nf4: row: what it is"\n',
            "row: it is not written",
        ),
    ],
)  # fmt: skip
def test_a_part_that_was_taken_back_is_taken_for_finished(
    finished: Path, file: str, old: str, new: str, words: str
) -> None:
    edit(finished / file, old, new)
    assert [line for line in said(finished) if f"bnb.nf4: {words}" in line] != []


@pytest.mark.parametrize("name", ["unit.yaml", "reference.py", "known.yaml", "quantize.py", "triton.py"])
def test_a_file_that_was_deleted_is_taken_for_finished(finished: Path, name: str) -> None:
    (finished / "kernels/bnb/nf4" / name).unlink()
    part = name.split(".")[0]
    assert any(f"bnb.nf4: {part}: kernels/bnb/nf4/{name} is missing" in line for line in said(finished))


def test_a_kernel_that_does_not_apply_lies_there(finished: Path) -> None:
    (finished / "kernels/bnb/nf4/decode.metal").write_text("// left behind\n")
    assert said(finished) == [
        f"{BAR}: bnb.nf4: metal: it does not apply, and kernels/bnb/nf4/decode.metal is there"
    ]


def test_a_unit_without_a_bar_has_no_known_answers(finished: Path) -> None:
    (finished / "kernels/ggml/q4_0/known.yaml").unlink()
    assert said(finished) == ["kernels/ggml/q4_0/unit.yaml: ggml.q4_0: known.yaml: it is missing"]


def test_a_method_without_a_bar_goes_unnoticed(tree: Path) -> None:
    begin(tree, "a method")
    (tree / "kernels/vllm/tiny_method/bar.yaml").unlink()
    assert said(tree) == ["kernels/vllm/tiny_method/method.py: vllm.tiny_method: bar.yaml: it is missing"]


def test_an_unfinished_unit_is_no_finding_of_the_audit(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    begin(tree, "an encoding")
    suite = tmp_path_factory.mktemp("suite")
    (suite / "pytest.ini").write_text("[pytest]\n")
    (suite / "conftest.py").write_text('pytest_plugins = ["harness.plugin"]\n')
    (suite / "test_suite.py").write_text("def test_it():\n    assert int('1') == 1\n")
    shutil.copytree(tree / "kernels/bnb", suite / "kernels/bnb")
    found = audit(suite)
    assert {finding.code for finding in found.findings} == {CODE}
    assert {(finding.file, finding.line) for finding in found.findings} >= {
        ("kernels/bnb/nf4/reference.py", 9),
        ("kernels/bnb/nf4/triton.py", 12),
    }


def complete(text: str) -> str:
    """The scaffolded method with values where the contract wants some."""
    for old, new in {
        "ALIASES: tuple[str, ...]": "ALIASES = ()",
        "RUNTIME_SCHEME: str | None": "RUNTIME_SCHEME = None",
        "activation_dtypes: ClassVar[tuple[str, ...]]": "activation_dtypes = ('bfloat16',)",
        "minimum_capability: ClassVar[int]": "minimum_capability = 80",
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.fixture
def method(tree: Path) -> Path:
    begin(tree, "a method")
    file = tree / "kernels/vllm/tiny_method/method.py"
    file.write_text(complete(file.read_text()))
    assert check_method(file) == []
    return file


@pytest.mark.parametrize(
    ("old", "new", "member"),
    [
        ("def detect(", "def detects(", "detect"),
        ("ALIASES = ()", "", "ALIASES"),
        ("RUNTIME_SCHEME = None", "", "RUNTIME_SCHEME"),
        ('    name: ClassVar[str] = "tiny_method"\n', "", "Config.name"),
        ("    minimum_capability = 80\n", "", "Config.minimum_capability"),
        ("    storage_dtype: str\n", "", "Config.storage_dtype"),
        ("def from_config(", "def from_dict(", "Config.from_config"),
        ("def dispatch(self, prefix: str, layer: LayerKind)", "def dispatch(self, prefix: str)", "Config.dispatch"),
        ("def shard_alignment(", "def alignment(", "Config.shard_alignment"),
        ("class MoE:", "class Experts:", "MoE"),
        ("class Linear:", "class Linear(:", "(file)"),
        ("in_features: int, out_features: Sequence", "out_features: int, in_features: Sequence", "Linear.create_weights"),
    ],
)  # fmt: skip
def test_a_member_that_an_engine_asks_for_is_not_missed(
    method: Path, old: str, new: str, member: str
) -> None:
    edit(method, old, new)
    assert [lack.member for lack in check_method(method)] == [member]


def test_a_member_that_a_method_lacks_is_no_finding(method: Path) -> None:
    edit(method, "class MoE:", "class Experts:")
    root = method.parents[3]
    assert any("method: there is no class MoE" in line for line in said(root))
