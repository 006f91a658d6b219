"""Deleting one unit: the rest of the suite stays whole, and one command lists what else must go."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cases.ggml.presets import encodings_of, files
from harness.cli import cli
from harness.drift.findings import Finding, Severity, lines_of
from harness.drift.retire import encoding_of, mention_of, retire
from harness.errors import UsageProblem
from harness.paths import REPOSITORY
from kernels.units import load_units

QUICK = (
    *("kernels/tests/test_units.py", "kernels/tests/test_quantizer.py", "oracles/tests/test_known.py"),
    *("harness/rows/tests/test_rows_data.py", "harness/containers/tests/test_ggml_types.py", "cases/tests"),
)
FEWEST, MOST = "ggml.iq1_m", "ggml.q8_0"
"""The unit that least else needs, and the one that is also the activations of seven others."""


def harness(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["drift", *arguments], standalone_mode=False)


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[Finding, ...]]:
    return {name: retire(REPOSITORY, name)[1] for name in (FEWEST, MOST)}


def evidence(findings: tuple[Finding, ...], kind: str) -> str:
    return " ".join(place for finding in findings if finding.kind == kind for place in finding.evidence)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("unit", "kernels/ggml/iq1_m/"),
        ("row", "harness/rows/data/gguf_encodings.yaml:"),
        ("preset", "harness/rows/data/gguf_presets.yaml:"),
        ("required", "cases/required/ggml.decode.txt:"),
        ("upstream", "cases/upstream/differences.yaml:"),
        ("docs", "docs/quantizers.md:"),
        ("test", "cases/tests/test_generators.py:"),
        ("code", "cases/ggml/formulas.py:"),
        ("ledger", "results/ledger/ledger.jsonl:"),
        ("container", "harness/containers/ggml_types.yaml:"),
    ],
)
def test_something_that_names_the_unit_is_not_listed(
    kind: str, place: str, found: dict[str, tuple[Finding, ...]]
) -> None:
    assert place in evidence(found[FEWEST], kind)


def test_a_unit_that_needs_it_is_not_listed(found: dict[str, tuple[Finding, ...]]) -> None:
    needing = {name for name, unit in load_units().items() if unit.activation == MOST and name != MOST}
    assert needing
    for name in needing:
        assert f"kernels/{name.replace('.', '/')}/unit.yaml:" in evidence(found[MOST], "unit")


def test_every_line_that_is_listed_names_it(found: dict[str, tuple[Finding, ...]]) -> None:
    for name, findings in found.items():
        short = name.partition(".")[2]
        for finding in findings:
            for place in finding.evidence:
                path, _, line = place.rpartition(":")
                if path:
                    text = (REPOSITORY / path).read_text("utf-8").split("\n")[int(line) - 1]
                    assert short in text.lower(), place


def test_what_is_kept_as_history_has_to_go(found: dict[str, tuple[Finding, ...]]) -> None:
    for finding in found[FEWEST]:
        if finding.kind in ("ledger", "container"):
            assert finding.severity is Severity.NOTE


@pytest.mark.parametrize(
    ("encoding", "means", "means_not"),
    [
        (
            "ggml.q4_k",
            (
                "ggml.q4_k",
                "kernels/ggml/q4_k/x",
                "QUANT-GGUF-Q4_K",
                "block_q4_k",
                "test_q4_k_is_wrong",
                "Q4_K,",
            ),
            ("Q4_K_M", "QUANT-GGUF-PRESET-Q4_K_S", "iq4_k", "q4_k2", "xq4_k"),
        ),
        ("ggml.q4_0", ("q4_0", "Q4_0"), ("q4_0_4_4", "iq4_0", "q4_01")),
        ("ggml.iq2_xs", ("IQ2_XS",), ("IQ2_XXS", "iq2_xss")),
        ("ggml.f16", ("ggml.f16", "kernels/ggml/f16", "QUANT-GGUF-PRESET-F16"), ("f16", "type: f16", "bf16")),
    ],
)
def test_another_name_is_taken_for_it(
    encoding: str, means: tuple[str, ...], means_not: tuple[str, ...]
) -> None:
    pattern = mention_of(encoding)
    assert [words for words in means if not pattern.search(words)] == []
    assert [words for words in means_not if pattern.search(words)] == []


@pytest.mark.parametrize("name", ["ggml.q8_0", "q8_0", "Q8_0", "kernels/ggml/q8_0/", "./kernels/ggml/q8_0"])
def test_a_name_is_not_understood(name: str) -> None:
    assert encoding_of(name, load_units()) == "ggml.q8_0"


def test_a_typo_retires_nothing_and_says_so() -> None:
    with pytest.raises(UsageProblem, match=r"did you mean .*ggml\.q4_k"):
        retire(REPOSITORY, "ggml.q4" + "_kk")  # whole, it would be found here
    assert isinstance(harness(str(REPOSITORY)).exception, UsageProblem)


@pytest.mark.parametrize("name", ["", "ggml", "ggml.", ".*", "ggml.*", "kernels/ggml/", "q4 0"])
def test_what_is_no_encoding_lists_half_the_tree(name: str) -> None:
    with pytest.raises(UsageProblem, match="wanted an encoding"):
        retire(REPOSITORY, name)


def test_a_tree_of_another_project_is_searched(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="has no folder kernels"):
        retire(tmp_path, FEWEST)


def test_a_table_that_another_unit_needs_has_to_go(found: dict[str, tuple[Finding, ...]]) -> None:
    shared = {table for unit in load_units().values() for table in unit.tables.values()}
    for name, findings in found.items():
        others = {t for unit in load_units().values() if unit.encoding != name for t in unit.tables.values()}
        listed = {Path(place).stem for f in findings if f.kind == "table" for place in f.evidence}
        assert listed == set(load_units()[name].tables.values()) - others <= shared


def test_lines_are_shown_in_another_way_than_they_lie() -> None:
    assert lines_of(["a/b:3", "a/b:4", "a/b:5", "a/b:9"]) == "a/b:3-5,9"
    assert lines_of(["kernels/ggml/q8_0/"]) == "kernels/ggml/q8_0/"


def test_the_document_says_less_than_the_words() -> None:
    result = harness(str(REPOSITORY), "--retire", FEWEST, "--json")
    document = json.loads(result.output)
    assert (result.return_value, document["schema"]) == (1, "harness-drift/1")
    assert sum(document["counts"].values()) == len(document["findings"])
    words = harness(str(REPOSITORY), "--retire", FEWEST).output
    for finding in document["findings"]:
        assert finding["evidence"][0].partition(":")[0] in words
        assert set(finding) == {
            *("id", "class", "severity", "method", "unit", "summary", "evidence", "allowed"),
        }


def tree_without(encoding: str, folder: Path) -> Path:
    """A copy of this tree without one unit, its lists of required cases written anew."""
    tree = folder / "tree"
    tree.mkdir()
    for path in REPOSITORY.iterdir():
        if path.is_file():
            shutil.copyfile(path, tree / path.name)
        elif path.name == ".ci" or not (path.name.startswith(".") or (path / "pyvenv.cfg").exists()):
            shutil.copytree(path, tree / path.name, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    shutil.rmtree(tree / "kernels" / encoding.replace(".", "/"))
    return tree


def pytest_in(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest over a tree, in a process that imports that tree's own packages."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST") and name != "PYTHONPATH"
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--no-evidence", "-q", *arguments]
    return subprocess.run(command, cwd=tree, env=kept, capture_output=True, text=True, check=False)


def held_in(case: str, encoding: str) -> bool:
    """Whether a case is about a whole file that holds the encoding: it reads, and is gone with it."""
    entry = files().get(case.split("/")[1])
    return entry is not None and encoding in encodings_of(entry)


def innocent_failures(encoding: str, tree: Path, out: str) -> list[str]:
    """Failed tests that neither name the encoding or a unit that needs it, nor use a helper that does."""
    _, findings = retire(tree, encoding)
    named = {place.rpartition(":")[0] for finding in findings for place in finding.evidence}
    helpers = {Path(path).stem for path in named if path.endswith(".py")}
    needing = {Path(path).parent.name for path in named if path.endswith("unit.yaml")}
    words = {encoding.partition(".")[2], *needing}
    left = []
    for nodeid in re.findall(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - .*)?$", out, re.MULTILINE):
        file = nodeid.partition("::")[0]
        text = (tree / file).read_text("utf-8")
        uses_helper = any(re.search(rf"import .*\b{stem}\b|\.{stem} import", text) for stem in helpers)
        if file not in named and not uses_helper and not any(word in nodeid.lower() for word in words):
            left.append(nodeid)
    return left


@pytest.mark.parametrize("encoding", [FEWEST, MOST])
def test_a_test_that_does_not_name_the_deleted_unit_fails(encoding: str, tmp_path: Path) -> None:
    tree = tree_without(encoding, tmp_path)
    assert encoding not in load_units(tree / "kernels")
    before = pytest_in(tree, "--collect-only")
    lines = set(re.findall(r"required: (\S+): in the list and not in the code", before.stdout))
    assert before.returncode == 1, before.stdout[-3000:]
    assert lines
    assert [line for line in lines if encoding not in line and not held_in(line, encoding)] == []
    after = pytest_in(tree, "--collect-only", "--update-required")
    assert after.returncode == 0, after.stdout[-3000:]
    ran = pytest_in(tree, *QUICK)
    assert re.search(r"\d+ passed", ran.stdout), ran.stdout[-3000:]
    innocent = innocent_failures(encoding, tree, ran.stdout)
    assert not innocent, "\n".join([*innocent, ran.stdout[-20_000:]])


@pytest.mark.nightly(reason="the whole suite runs again without one unit, which takes as long as the suite")
@pytest.mark.parametrize("encoding", [FEWEST, MOST])
def test_some_test_that_does_not_name_the_deleted_unit_fails(encoding: str, tmp_path: Path) -> None:
    tree = tree_without(encoding, tmp_path)
    assert pytest_in(tree, "--collect-only", "--update-required").returncode == 0
    own = str(Path(__file__).relative_to(REPOSITORY))
    ran = pytest_in(tree, "-n", "2", "--deselect", own)
    assert re.search(r"\d+ passed", ran.stdout), ran.stdout[-3000:]
    innocent = innocent_failures(encoding, tree, ran.stdout)
    assert not innocent, "\n".join([*innocent, ran.stdout[-20_000:]])
