"""Exit codes: what must never be reported as success."""

from __future__ import annotations

import pytest

from harness.verdicts import Side, Verdict, exit_code, worst

S, O = Side.SUBJECT, Side.ORACLE  # noqa: E741


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ([], 3),
        ([(Verdict.PASS, S)], 0),
        ([(Verdict.SKIP, S)], 3),
        ([(Verdict.PASS, S), (Verdict.SKIP, S)], 0),
        ([(Verdict.XFAIL, S)], 3),
        ([(Verdict.PASS, S), (Verdict.XFAIL, S)], 0),
        ([(Verdict.PASS, S), (Verdict.NOT_RUN, S)], 3),
        ([(Verdict.PASS, S), (Verdict.FAIL_VALUE, S)], 1),
        ([(Verdict.PASS, S), (Verdict.XPASS, S)], 1),
        ([(Verdict.PASS, S), (Verdict.ERROR_RUN, S)], 1),
        ([(Verdict.PASS, S), (Verdict.ERROR_RUN, O)], 3),
        ([(Verdict.PASS, S), (Verdict.TIMEOUT, O)], 3),
        ([(Verdict.PASS, S), (Verdict.FAIL_SHAPE, O)], 3),
        ([(Verdict.PASS, S), (Verdict.ORACLE_DISAGREE, O)], 1),
        ([(Verdict.ERROR_RUN, O), (Verdict.FAIL_VALUE, S)], 1),
    ],
)
def test_a_set_that_proves_less_than_it_promised_is_not_zero(verdicts, status):
    assert exit_code(verdicts) == status


def test_every_verdict_has_a_place_in_the_order():
    for verdict in Verdict:
        assert worst([Verdict.PASS, verdict, Verdict.PASS]) is (
            verdict if verdict not in (Verdict.SKIP, Verdict.XFAIL) else Verdict.PASS
        )
    assert worst([]) is Verdict.NOT_RUN
