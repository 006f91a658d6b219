"""Every kind of finding goes red on its known-bad file, and nowhere else."""

from __future__ import annotations

import pytest

from harness.audit.codes import CODES
from harness.audit.tests.conftest import KNOWN_BAD, Audits
from harness.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "audit.md"
OF_A_LIST = {"required", "missing-family", "unfinished-unit"}
"""Findings about the committed list of cases and about units, which these files do not have: test_audit_list.py, and
test_unfinished.py of the scaffold."""


def test_a_kind_of_finding_has_no_known_bad_file() -> None:
    assert {name.replace("_", "-") for name in KNOWN_BAD} | OF_A_LIST == set(CODES)


def test_the_page_leaves_out_a_kind_of_finding() -> None:
    page = PAGE.read_text()
    assert [code for code, words in CODES.items() if f"| `{code}` | {words} |" not in page] == []


@pytest.mark.parametrize("name", KNOWN_BAD)
def test_a_known_bad_file_is_taken_for_good_or_for_something_else(name: str, audits: Audits) -> None:
    assert audits.codes_of(f"test_{name}.py") == {name.replace("_", "-")}


def test_a_good_file_is_taken_for_bad(audits: Audits) -> None:
    assert [finding for finding in audits.after.findings if finding.file == "test_good.py"] == []


def test_a_finding_has_no_file_of_the_tree(audits: Audits) -> None:
    files = {finding.file for finding in audits.after.findings}
    assert files == {f"test_{name}.py" for name in KNOWN_BAD}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("vague_reason", 2),
        ("bad_expectation", 2),
        ("unmatched_expectation", 2),
        ("raw_skip", 2),
        ("early_return", 3),
        ("swallowed_failure", 3),
        ("no_assertion", 5),
        ("skip_of_passing_row", 2),
        ("passing_debt", 2),
        ("narrower_sibling", 2),
        ("bad_allow", 4),
    ],
)
def test_one_of_several_findings_in_a_file_is_missed(name: str, count: int, audits: Audits) -> None:
    found = [finding for finding in audits.after.findings if finding.file == f"test_{name}.py"]
    assert len(found) == count, found
    lines = (audits.root / f"test_{name}.py").read_text().splitlines()
    assert all(lines[finding.line - 1].strip() for finding in found)
