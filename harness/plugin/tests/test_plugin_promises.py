"""What was selected and did not run is never green, whichever hook took it away."""

from __future__ import annotations

import pytest

from harness.plugin.tests.conftest import Suite

BODY = """
@pytest.mark.cases(FAMILY)
def test_it(case, verdict):
    give(case, verdict)

def test_plain():
    assert 1
"""


def with_hook(pytester: pytest.Pytester, hook: str) -> None:
    with (pytester.path / "conftest.py").open("a") as out:
        out.write(f"import pytest\n{hook}\n")


CLAIMS = {
    "all": "def pytest_runtest_protocol(item):\n    return True",
    "some": "def pytest_runtest_protocol(item):\n    return True if '/b/' in item.name else None",
    "a plain test": "def pytest_runtest_protocol(item):\n    return True if 'plain' in item.name else None",
    "the loop": "def pytest_runtestloop(session):\n    return True",
}


@pytest.mark.parametrize("hook", CLAIMS.values(), ids=CLAIMS)
def test_a_hook_that_runs_nothing_is_green(hook: str, suite: Suite, pytester: pytest.Pytester) -> None:
    with_hook(pytester, hook)
    ran = suite(BODY)
    assert (ran.status, "selected, and never run" in ran.out, "NOT_RUN test_toy.py" in ran.out) == (
        3,
        True,
        True,
    )


EXITS = {
    "while collecting": "def pytest_collection_modifyitems(items):\n    pytest.exit('enough', returncode=0)",
    "after the first test": "def pytest_runtest_teardown(item):\n    pytest.exit('enough', returncode=0)",
    "before all": "def pytest_sessionstart(session):\n    pytest.exit('enough', returncode=0)",
}


@pytest.mark.parametrize("hook", EXITS.values(), ids=EXITS)
def test_a_session_that_is_ended_early_is_green(hook: str, suite: Suite, pytester: pytest.Pytester) -> None:
    with_hook(pytester, hook)
    assert suite(BODY).status == 3


DROP = "def pytest_collection_modifyitems(items):\n    items[:] = [item for item in items if '/b/' not in item.name]"
LATE = "def pytest_collection_finish(session):\n    del session.items[0]"


def test_a_case_is_dropped_in_silence(suite: Suite, pytester: pytest.Pytester) -> None:
    with_hook(pytester, DROP)
    ran = suite(BODY)
    assert (ran.status, "lost-test: test_it[toy.decode" in ran.out, "1 passed" in ran.out) == (1, True, False)


def test_a_case_is_dropped_after_it_was_selected(suite: Suite, pytester: pytest.Pytester) -> None:
    with_hook(pytester, LATE)
    ran = suite(BODY)
    assert (ran.status, "NOT_RUN test_toy.py::test_it[toy.decode/ggml.q4_0/a/small/cpu]" in ran.out) == (
        3,
        True,
    )


def test_workers_hide_what_did_not_run(process: Suite, pytester: pytest.Pytester) -> None:
    body = BODY + "\ndef test_other():\n    assert 1\n"
    with_hook(pytester, DROP)
    ran = process(body, "-n", "2")
    assert (ran.status, "lost-test: test_it[toy.decode" in ran.out) == (1, True), ran.out


def test_a_hook_that_runs_nothing_is_green_with_workers(process: Suite, pytester: pytest.Pytester) -> None:
    with_hook(pytester, CLAIMS["some"])
    ran = process(BODY, "-n", "2")
    assert (ran.status, "NOT_RUN test_toy.py::test_it[toy.decode/ggml.q4_0/b/" in ran.out) == (3, True), (
        ran.out
    )


@pytest.mark.parametrize("options", [("--collect-only",), ("--markers",), ("--fixtures",), ("--version",)])
def test_a_look_at_the_suite_is_called_unable(options: tuple[str, ...], suite: Suite) -> None:
    assert suite(BODY, *options).status == 0


def test_a_filter_is_called_a_loss(suite: Suite) -> None:
    ran = suite(BODY, "--cases", "*/b/*")
    assert (ran.status, len(ran.evidence), "never run" in ran.out) == (0, 2, False), ran.out
    assert suite(BODY, "-k", "plain").status == 0
