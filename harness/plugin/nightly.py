"""Tests that are too long for every change: `pytest --nightly` runs them, every other session says what it left out.

A plain test says so by a mark, `@pytest.mark.nightly(reason="…")`. Cases say so in their family,
`Family(nightly="…")`, so that the list of required cases knows it: `harness results check` must not take a cell that
only the nightly run recomputes for one that was forgotten.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness.plugin.families import case_of
from harness.plugin.findings import Finding, report_finding, shown

LEFT = pytest.StashKey[Counter[str]]()
"""Reason -> how many tests of this session were left to the nightly run."""
_SENT = "harness_nightly_left"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cases", "cases and evidence")
    group.addoption(
        "--nightly", action="store_true", help="run the tests that are too long for every change, too"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT] = Counter[str]()
    config.addinivalue_line("markers", "nightly(reason): too long for every change; --nightly runs it")


def pytest_itemcollected(item: pytest.Item) -> None:
    """A mark without a reason, or one that a family should have said, is a finding, whatever is selected."""
    mark = item.get_closest_marker("nightly")
    if mark is not None and (words := _misuse(item, mark)):
        _, line, _ = item.reportinfo()
        where = shown(item.config, item.path), (line or 0) + 1
        report_finding(None, item.config, Finding("bad-nightly", *where, words))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of what the filters have kept, leave out what is the nightly run's."""
    if config.option.nightly:
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("nightly")
        (kept if mark is None else left).append(item)
        if mark is not None:
            config.stash[LEFT][_reason(mark)] += 1
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _reason(mark: pytest.Mark) -> str:
    return str(mark.kwargs.get("reason", ""))


def _misuse(item: pytest.Item, mark: pytest.Mark) -> str | None:
    if mark.args or set(mark.kwargs) != {"reason"} or not _reason(mark).strip():
        return 'nightly wants one keyword, a reason: nightly(reason="…")'
    case = case_of(item)
    if case is not None and case.nightly != _reason(mark):
        return "the test has cases: say it in their family, Family(nightly=…), which the required list shows"
    return None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells the controller, which collects nothing itself."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        left: Counter[str] = session.config.stash[LEFT]
        output[_SENT] = dict(left)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker collects the same, so that the first one to tell says it for all."""
    left: Counter[str] = node.config.stash[LEFT]
    if not left:
        left.update(getattr(node, "workeroutput", {}).get(_SENT, {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left = config.stash[LEFT]
    if left:
        terminalreporter.section(f"left to the nightly run: {left.total()}; --nightly runs them")
        for reason, count in sorted(left.items()):
            terminalreporter.write_line(f"{count}: {reason}")
