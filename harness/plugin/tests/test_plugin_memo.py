"""Evidence says whether an oracle's answer was live, and what came from the memo is never promoted."""

from __future__ import annotations

import pytest

from harness.plugin.tests.conftest import Ran, Suite

BODY = """
from harness.plugin.memo import MEMO

class Oracle:
    pin = {"pin": "engine", "package": "p", "version": "1", "wheel_sha256": "0", "worker_sha256": "0"}

@pytest.mark.cases(FAMILY)
def test_it(case, verdict, request):
    from harness.plugin.opinions import judge_of
    judge = judge_of(Oracle)
    if case.axes[0][1] == "b":
        request.config.stash[MEMO].answered.add("engine")
        request.config.stash[MEMO].hits += 1
    second = opinions(case, "second")
    verdict(right(case), [Opinion(judge, right(case)), *second], kernel="toy", block_elems=32)
"""


def live(ran: Ran) -> dict[str, list[bool]]:
    return {
        name.split("/")[2]: [judge.live for judge in entry.judges] for name, entry in ran.evidence.items()
    }


def test_an_answer_from_the_memo_is_called_live(suite: Suite) -> None:
    ran = suite(BODY)
    assert ran.status == 0, ran.out
    assert live(ran) == {"a": [True, True], "b": [False, True]}
    assert "2 answers of oracles came from the memo; --refresh asks again" in ran.out


def test_an_answer_that_a_fixture_kept_is_called_live(suite: Suite) -> None:
    ran = suite(BODY.replace('("a", "b")', '("b", "a")').replace('== "b"', '== "a"'))
    assert live(ran) == {"a": [False, True], "b": [False, True]}, "from the first one on, none is live"


def test_answers_of_workers_are_not_counted(process: Suite) -> None:
    ran = process(BODY, "-n", "2")
    assert (ran.status, "2 answers of oracles came from the memo" in ran.out) == (0, True), ran.out


@pytest.mark.parametrize(("option", "refresh"), [((), False), (("--refresh",), True)])
def test_refresh_is_not_heard(option: tuple[str, ...], refresh: bool, suite: Suite) -> None:
    body = """
from harness.plugin.memo import MEMO

def test_it(pytestconfig):
    print("refresh is", pytestconfig.stash[MEMO].refresh)
    assert 1
"""
    assert f"refresh is {refresh}" in suite(body, "-s", *option).out
