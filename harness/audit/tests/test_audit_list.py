"""Exceptions for families, and the committed list of cases: what has no file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.audit.allow import LIST
from harness.audit.model import Audit
from harness.audit.run import audit
from harness.audit.tests.conftest import make_tree
from harness.errors import BadInput
from harness.evidence.required import FOLDER, SCHEMA

REASON = "the interpreter takes seconds a case, and one value reaches all of its code"


def allowing(root: Path, *entries: tuple[str, str, str, str]) -> Audit:
    """An audit of a tree whose list has these entries: code, family, subject, reason."""
    make_tree(root, "narrower_sibling")
    (root / LIST).parent.mkdir(parents=True)
    lines = [
        f"  - {{code: {code}, family: {family}, subject: {subject}, owner: '@kernels', reason: '{reason}'}}"
        for code, family, subject, reason in entries
    ]
    (root / LIST).write_text("\n".join(["allowed:", *lines, ""]))
    return audit(root)


def places(found: Audit) -> list[tuple[str, str]]:
    return [(finding.file, finding.code) for finding in found.findings]


def test_an_entry_with_a_reason_is_not_enough(tmp_path: Path) -> None:
    found = allowing(
        tmp_path,
        ("narrower-sibling", "toy.narrow", "values", REASON),
        ("narrower-sibling", "toy.silent", "other", REASON),
    )
    assert found.findings == ()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (("narrower-sibling", "toy.gone", "values", REASON), "it excuses nothing"),
        (("narrower-sibling", "toy.narrow", "m", REASON), "it excuses nothing"),
        (("expired", "toy.narrow", "values", REASON), "no comment or list excuses it"),
        (("narrower-sibling", "toy.narrow", "values", "not needed for now"), "vague reason"),
    ],
)
def test_an_entry_excuses_what_it_should_not(
    entry: tuple[str, str, str, str], words: str, tmp_path: Path
) -> None:
    found = allowing(tmp_path, entry)
    narrower = ("test_narrower_sibling.py", "narrower-sibling")
    assert places(found) == [(LIST.as_posix(), "bad-allow"), narrower, narrower]
    assert words in found.findings[0].message


def test_a_list_that_cannot_be_read_is_taken_for_an_empty_one(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / LIST).parent.mkdir(parents=True)
    (tmp_path / LIST).write_text("allowed: [{code: narrower-sibling}]\n")
    with pytest.raises(BadInput, match=r"allowed\.yaml"):
        audit(tmp_path)


def test_a_case_of_the_committed_list_is_gone(tmp_path: Path) -> None:
    make_tree(tmp_path)
    with (tmp_path / "pytest.ini").open("a") as out:
        out.write("testpaths = .\n")
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    head = f'# {{"schema": "{SCHEMA}", "family": "toy.lost", "op": "x", "bound": "y", "files": []}}\n'
    line = "toy.lost/ggml.q4_0/a/cpu\tggml.q4_0\tMaterialize\tcpu\tQUANT-GGUF-Q4_0\n"
    (folder / "toy.lost.txt").write_text(head + line)
    found = places(audit(tmp_path))
    assert ((FOLDER / "toy.lost.txt").as_posix(), "missing-family") in found
    assert {place for place in found if place[0] == "test_good.py"} == {("test_good.py", "required")}


def test_a_folder_of_tests_is_left_out(tmp_path: Path) -> None:
    make_tree(tmp_path)
    for name in ("hidden", "told"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text("def test_it():\n    assert int('1') == 1\n")
    (tmp_path / "told" / "conftest.py").write_text("collect_ignore = ['test_told.py']\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers --ignore=hidden\n")
    assert places(audit(tmp_path)) == [
        ("hidden/test_hidden.py", "module-skip"),
        ("told/conftest.py", "module-skip"),
    ]
    words = "without the extra kernels there is no torch and no triton to import"
    (tmp_path / "told" / "conftest.py").write_text(
        f"collect_ignore = ['test_told.py']  # audit: allow(module-skip) {words}\n"
    )
    assert places(audit(tmp_path)) == [("hidden/test_hidden.py", "module-skip")]
