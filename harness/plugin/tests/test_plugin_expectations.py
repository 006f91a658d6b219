"""Expected failures and skips hide nothing but what they are about."""

from __future__ import annotations

import datetime

import pytest

from harness.plugin.tests.conftest import Suite, case

DAY = datetime.date.today() + datetime.timedelta(days=30)
XFAIL = (
    "@pytest.mark.xfail_case(row=ROW, phase='call', raises=IndexError, owner='me',"
    f" reason='tile 7 is indexed before it is loaded', expires='{DAY}')\n"
)


def expected(body: str, mark: str = XFAIL, arguments: str = "case, verdict") -> str:
    return case(body, arguments).replace("@", mark + "@", 1)


def test_an_expected_failure_is_red(suite: Suite) -> None:
    ran = suite(expected("raise IndexError('tile 7')") + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict, "1 passed, 1 xfailed" in ran.out) == (0, "XFAIL", True), ran.out


def test_expected_failures_alone_are_green(suite: Suite) -> None:
    assert suite(expected("raise IndexError('tile 7')")).status == 3
    assert suite(XFAIL + "def test_it():\n    raise IndexError\n").status == 3


def test_xpass_is_green(suite: Suite) -> None:
    ran = suite(expected("give(case, verdict)"))
    assert (ran.status, ran.only().verdict, "XPASS" in ran.out) == (1, "XPASS", True), ran.out


def test_an_xfail_fails_with_another_exception(suite: Suite) -> None:
    ran = suite(expected("raise KeyError('tile 7')"))
    assert (ran.status, ran.only().verdict) == (1, "ERROR_RUN"), ran.out
    assert ran.only().message == "xfail_case expects IndexError in the phase call, got KeyError"


@pytest.mark.parametrize("phase", ["setup", "teardown"])
def test_an_xfail_fails_in_another_phase(phase: str, suite: Suite) -> None:
    before, after = ("raise IndexError", "pass") if phase == "setup" else ("pass", "raise IndexError")
    fixture = f"@pytest.fixture\ndef tile():\n    {before}\n    yield\n    {after}\n"
    body = "raise IndexError" if phase == "teardown" else "give(case, verdict)"
    ran = suite(fixture + expected(body, arguments="case, verdict, tile").lstrip())
    assert (ran.status, ran.only().verdict) == (1, "ERROR_RUN"), ran.out
    assert (
        ran.only().message
        == f"xfail_case expects IndexError in the phase call, got IndexError in the phase {phase}"
    )


def test_an_xfail_fails_with_another_verdict(suite: Suite) -> None:
    mark = XFAIL.replace("IndexError", "CaseFailed, verdict='FAIL_OOB'")
    assert suite(expected("give(case, verdict, -right(case))", mark)).only().verdict == "FAIL_VALUE"
    mark = mark.replace("FAIL_OOB", "FAIL_VALUE")
    assert suite(expected("give(case, verdict, -right(case))", mark)).only().verdict == "XFAIL"


TEARDOWN = "@pytest.fixture\ndef tile():\n    yield\n    raise IndexError\n"


def test_an_expected_failure_of_the_teardown_hides_a_wrong_result(suite: Suite) -> None:
    mark = XFAIL.replace("phase='call'", "phase='teardown'")
    body = expected("give(case, verdict, -right(case))", mark, "case, verdict, tile").lstrip()
    ran = suite(TEARDOWN + body + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict) == (1, "FAIL_VALUE"), ran.out
    ran = suite(TEARDOWN + body.replace("-right", "right") + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict) == (0, "XFAIL"), ran.out
    assert ran.only().message.startswith(f"expected (QUANT-GGUF-Q4_0 until {DAY})")


def test_a_missing_oracle_is_an_expected_failure(suite: Suite) -> None:
    mark = XFAIL.replace("IndexError", "Unavailable")
    ran = suite(expected("raise Unavailable('not installed')", mark) + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict) == (3, "NOT_RUN"), ran.out


def test_an_xfail_of_one_row_or_case_covers_others(suite: Suite) -> None:
    mark = XFAIL.replace("owner", "cases='*/a/*', owner")
    body = "@pytest.mark.cases(FAMILY)\ndef test_it(case, verdict):\n    raise IndexError\n"
    ran = suite(mark + body)
    by_axis = {name.split("/")[2]: entry.verdict for name, entry in ran.evidence.items()}
    assert (ran.status, by_axis) == (1, {"a": "XFAIL", "b": "ERROR_RUN"}), ran.out


def test_an_xfail_of_a_plain_test_hides_what_it_does_not_expect(suite: Suite) -> None:
    passing = "def test_plain(): assert 1\n"
    assert suite(passing + XFAIL + "def test_it():\n    raise IndexError\n").status == 0
    assert suite(XFAIL + "def test_it():\n    assert 0\n").status == 1
    assert suite(XFAIL + "def test_it():\n    assert 1\n").status == 1


SKIP = "@pytest.mark.skip_case(row=ROW, kind='platform', reason='only a device of sm_100 runs it', owner='me'{more})\n"


def test_a_skip_runs_the_case_or_hides_others(suite: Suite) -> None:
    body = "@pytest.mark.cases(FAMILY)\ndef test_it(case, verdict):\n    give(case, verdict)\n"
    ran = suite(SKIP.format(more=", cases='*/a/*'") + body)
    skipped = [entry for entry in ran.evidence.values() if entry.verdict == "SKIP"]
    assert (ran.status, len(ran.evidence), len(skipped)) == (0, 4, 2), ran.out
    assert skipped[0].skip is not None
    assert (skipped[0].skip.row, skipped[0].skip.kind, skipped[0].skip.owner) == (
        "QUANT-GGUF-Q4_0",
        "platform",
        "me",
    )


def test_a_condition_that_does_not_hold_skips(suite: Suite) -> None:
    body = "import harness.plugin.conditions as c\nc.CONDITIONS['no_metal'] = lambda: False\n"
    ran = suite(body + SKIP.format(more=", when='no_metal'") + case("give(case, verdict)").lstrip())
    assert (ran.status, ran.only().verdict) == (0, "PASS"), ran.out


def test_a_skip_out_of_a_test_is_lost(suite: Suite) -> None:
    call = "skip_case(row=ROW, kind='upstream_limit', reason='the engine has no product for this type', owner='me')"
    ran = suite(case(call, "case, skip_case") + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict) == (0, "SKIP"), ran.out
    assert "1 passed, 1 skipped" in ran.out


def test_a_skip_out_of_a_test_is_about_another_row(suite: Suite) -> None:
    call = (
        "skip_case(row='QUANT-AWQ', kind='upstream_limit',"
        " reason='the engine has no product for this type', owner='me')"
    )
    ran = suite(case(call, "case, skip_case"))
    assert (ran.status, ran.only().verdict) == (1, "ERROR_RUN")
    assert "does not belong to QUANT-AWQ" in ran.only().message


LATE = (
    "skip_case(row=ROW, kind='upstream_limit', reason='the engine has no product for this type', owner='me')"
)
LATE_SKIPS = {
    "a failure": ("try:\n    give(case, verdict, -right(case))\nexcept CaseFailed:\n    pass", "FAIL_VALUE"),
    "a pass": ("give(case, verdict)", "ERROR_RUN"),
}


@pytest.mark.parametrize(("before", "verdict"), LATE_SKIPS.values(), ids=LATE_SKIPS)
def test_a_skip_takes_back_a_verdict(before: str, verdict: str, suite: Suite) -> None:
    ran = suite(case(f"{before}\n{LATE}", "case, verdict, skip_case") + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict, "1 failed, 1 passed" in ran.out) == (1, verdict, True), ran.out


def test_a_skip_hides_an_error_of_the_teardown(suite: Suite) -> None:
    ran = suite(TEARDOWN + case(LATE, "case, skip_case, tile").lstrip() + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict) == (1, "ERROR_RUN"), ran.out


HAND_MADE = {
    "an unknown row": ("'NO-SUCH-ROW', 'slow', 'x', 'me'", "NO-SUCH-ROW"),
    "a vague reason": ("ROW, 'platform', 'broken', 'me'", "vague reason"),
    "no date": ("ROW, 'slow', 'the engine needs an hour for this one', 'me'", "no expiry"),
    "another row": (
        "'QUANT-AWQ', 'platform', 'the engine has no product for this type', 'me'",
        "does not belong",
    ),
    "hardware on a cpu": (
        "ROW, 'hardware', 'the engine has no product for this type', 'me'",
        "runs on the cpu",
    ),
}


@pytest.mark.parametrize(("values", "words"), HAND_MADE.values(), ids=HAND_MADE)
def test_a_skip_made_by_hand_says_less_than_it_must(values: str, words: str, suite: Suite) -> None:
    body = (
        "from harness.plugin.verdict import CaseSkipped\nfrom harness.plugin.expectations import Skipping\n"
        + case(f"raise CaseSkipped(Skipping({values}))").lstrip()
    )
    ran = suite(body + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict, words in ran.only().message) == (1, "ERROR_RUN", True), ran.out


def test_an_expected_failure_hides_another_bound(suite: Suite) -> None:
    mark = XFAIL.replace("IndexError", "CaseFailed, verdict='FAIL_VALUE'")
    ran = suite(expected("give(case, verdict, -right(case), bound=Bound(1e-9, 'loose'))", mark))
    assert (ran.status, ran.only().verdict) == (1, "ERROR_RUN"), ran.out
    assert "another bound (loose)" in ran.only().message
