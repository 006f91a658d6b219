"""The command: what it prints, where it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from harness.audit.model import Audit
from harness.audit.tests.conftest import make_tree
from harness.paths import REPOSITORY
from harness.tests.conftest import run_harness


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("good"))


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("bad"), "no_assertion", "grown_skips")


def test_reports_contradict_one_another(bad: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("audit.json", "audit.sarif", "audit.md")}
    ran = run_harness(
        *("audit", "--root", bad, "--json", files["audit.json"]),
        *("--sarif", files["audit.sarif"], "--markdown", files["audit.md"]),
    )
    assert ran.status == 1, ran.err
    document = json.loads(files["audit.json"].read_text())
    assert {finding["code"] for finding in document["findings"]} == {"no-assertion"}
    assert document["counts"]["findings"] == {"no-assertion": 5}
    assert len(json.loads(files["audit.sarif"].read_text())["runs"][0]["results"]) == 5
    assert "**5 findings**" in files["audit.md"].read_text()
    assert "test_no_assertion.py:4: no-assertion: test_it asserts nothing" in ran.out
    assert "the split-K kernel for one row does not exist" in ran.out


def test_the_json_does_not_fit_its_published_schema(bad: Path) -> None:
    schema = json.loads((REPOSITORY / "docs" / "schemas" / "audit.schema.json").read_text())
    ran = run_harness("audit", "--root", bad, "--json")
    jsonschema.validate(ran.report, schema)
    assert ran.status == 1
    assert set(ran.report) == {"schema", "counts", "skips", "findings", "rows"}
    wanted = {"nodeid", "row", "kind", "reason", "owner", "expires", "upstream"}
    assert all(wanted <= set(skip) for skip in ran.report["skips"])
    assert all(set(finding) == {"code", "file", "line", "message"} for finding in ran.report["findings"])
    broken = ran.report | {"counts": {}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_a_baseline_forgets_a_debt(good: Path, bad: Path, tmp_path: Path) -> None:
    former, now = tmp_path / "former.json", tmp_path / "now.json"
    assert run_harness("audit", "--root", good, "--json", former).status == 0
    ran = run_harness("audit", "--root", bad, "--baseline", former, "--json", now, "--markdown")
    assert ran.status == 1
    (finding,) = (
        each for each in Audit.model_validate_json(now.read_text()).findings if each.code == "grown-skips"
    )
    assert "QUANT-GGUF-Q5_0 owes 2 of 2 cases, in the baseline 0 of 0" in finding.message
    assert (finding.file, finding.line) == ("test_grown_skips.py", 7)
    assert "### Skips gained: 1" in ran.out
    assert (
        "| `QUANT-GGUF-Q5_0` | **missing_kernel** | 0 | 2 | 2 | `test_grown_skips.py::test_it` |" in ran.out
    )
    same = run_harness("audit", "--root", bad, "--baseline", now)
    assert "grown-skips" not in same.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--json", "--sarif"), "--json and --sarif both write to stdout"),
        (("--root", "/no/such/folder"), "there is no such folder"),
        (("--baseline", "/no/such/file"), "wanted what `harness audit --json FILE` wrote"),
        (("--no-such-option",), "No such option"),
    ],
)
def test_bad_usage_is_taken_for_a_finding(options: tuple[str, ...], words: str) -> None:
    ran = run_harness("audit", *options)
    assert (ran.status, words in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "harness-matrix/1"}', "\udcff", '{"a": NaN}'])
def test_another_file_is_taken_for_a_baseline(text: str, tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text, errors="surrogateescape")
    ran = run_harness("audit", "--baseline", file)
    assert (ran.status, str(file) in ran.err) == (2, True), ran.err


def test_a_file_that_cannot_be_imported_is_audited_as_if_it_were_not_there(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")
    ran = run_harness("audit", "--root", tmp_path)
    assert (ran.status, "test_broken.py" in ran.err, "no_such_module" in ran.err) == (2, True, True), ran.err


def test_a_tree_without_tests_is_clean(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / "test_good.py").unlink()
    ran = run_harness("audit", "--root", tmp_path)
    assert (ran.status, "nothing was collected" in ran.err) == (3, True), ran.err


def test_options_of_the_environment_hide_tests(good: Path) -> None:
    ran = run_harness(
        "audit", "--root", good, "--json", PYTEST_ADDOPTS="-k no_such_test --ignore=test_good.py"
    )
    assert ran.status == 0
    assert ran.report["counts"]["tests"] > 10
