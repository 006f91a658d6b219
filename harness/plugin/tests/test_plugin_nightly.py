"""What is too long for every change is never lost silently: the session says what it left out, and why."""

from __future__ import annotations

import pytest

from harness.plugin.tests.conftest import Suite, case

PLAIN = """
@pytest.mark.nightly(reason="ten million blocks take minutes")
@pytest.mark.parametrize("part", [1, 2])
def test_long(part):
    assert 1

def test_short():
    assert 1
"""
CASES = """
NIGHT = another("toy.night", nightly="a whole model takes minutes")

@pytest.mark.cases(ONE, NIGHT)
def test_it(case, verdict):
    give(case, verdict)
"""


def test_a_nightly_test_disappears_without_a_word(suite: Suite) -> None:
    ran = suite(PLAIN)
    assert (ran.status, "1 passed, 2 deselected" in ran.out) == (0, True), ran.out
    assert "left to the nightly run: 2; --nightly runs them" in ran.out
    assert "2: ten million blocks take minutes" in ran.out


def test_a_nightly_test_disappears_without_a_word_with_workers(process: Suite) -> None:
    ran = process(PLAIN, "-n", "2")
    assert (ran.status, "1 passed" in ran.out, "2: ten million blocks" in ran.out) == (0, True, True), ran.out


@pytest.mark.parametrize("body", [PLAIN, CASES], ids=["plain tests", "cases"])
def test_the_nightly_run_leaves_something_out(body: str, suite: Suite) -> None:
    ran = suite(body, "--nightly")
    assert (ran.status, "deselected" in ran.out, "left to the nightly run" in ran.out) == (0, False, False)


def test_a_nightly_family_runs_on_every_change(suite: Suite) -> None:
    ran = suite(CASES)
    assert (ran.status, ran.only().family) == (0, "toy.one"), ran.out
    assert "1: a whole model takes minutes" in ran.out
    assert len(suite(CASES, "--nightly").evidence) == 2


def test_what_another_filter_drops_is_blamed_on_the_night(suite: Suite) -> None:
    assert "left to the nightly run" not in suite(PLAIN, "-k", "short").out


def test_nothing_but_nightly_tests_is_green(suite: Suite) -> None:
    assert suite(PLAIN, "-m", "nightly").status == 3


MISUSES = {
    "no reason": ('@pytest.mark.nightly(reason=" ")\ndef test_it():\n    assert 1\n', "wants one keyword"),
    "another keyword": ("@pytest.mark.nightly(why='x')\ndef test_it():\n    assert 1\n", "wants one keyword"),
    "a test of cases": (
        f"@pytest.mark.nightly(reason='long'){case('give(case, verdict)')}",
        "say it in their family",
    ),
}


@pytest.mark.parametrize(("body", "words"), MISUSES.values(), ids=MISUSES)
def test_a_nightly_mark_hides_what_the_required_list_wants(body: str, words: str, suite: Suite) -> None:
    ran = suite(body)
    assert (ran.status, "bad-nightly" in ran.out, words in ran.out) == (1, True, True), ran.out


def test_the_required_list_does_not_know_what_is_nightly(suite: Suite) -> None:
    assert suite(CASES, "--collect-only", "--update-required").status == 0
    assert suite(CASES).status == 0
    changed = CASES.replace("takes minutes", "takes hours")
    ran = suite(changed)
    assert (ran.status, "nightly is 'a whole model takes hours' in the code" in ran.out) == (1, True), ran.out
