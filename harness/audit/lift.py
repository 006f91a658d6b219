"""The pytest plugin of `harness audit --run-skipped`: it runs what debts skip, and writes down what came of it.

Skips that wait for a device or a platform stay. Nothing else is run, and no evidence is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.audit.skips import ELSEWHERE
from harness.errors import UsageProblem
from harness.plugin.expectations import Skipping, applies, skip_misfit, skipping
from harness.plugin.families import case_of
from harness.plugin.verdict import CaseSkipped

_LIFTED = pytest.StashKey[set[str]]()
_PASSED = pytest.StashKey[dict[str, bool]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--audit-lifted", metavar="FILE", help="write which cases pass without their skips")


class _Instead:
    """The fixture `skip_case` of a session without debts; registered last, it comes before the plugin's own."""

    @pytest.fixture
    def skip_case(self, request: pytest.FixtureRequest) -> Callable[..., None]:
        def skip(**values: Any) -> None:
            wanted = skipping(values)
            case = case_of(request.node)
            if case is not None and (problem := skip_misfit(wanted, case)):
                raise UsageProblem(problem)
            if not _owed(wanted):
                raise CaseSkipped(wanted)
            request.config.stash[_LIFTED].add(request.node.nodeid)

        return skip


class _Results:
    """Keeps how each item ended."""

    def __init__(self, passed: dict[str, bool]) -> None:
        self._passed = passed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._passed[report.nodeid] = report.passed
        elif report.failed:
            self._passed[report.nodeid] = False


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LIFTED] = set()
    config.stash[_PASSED] = {}
    config.option.nightly = True
    config.pluginmanager.register(_Instead(), "harness-audit-instead")
    config.pluginmanager.register(_Results(config.stash[_PASSED]), "harness-audit-results")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the debts off the items that have one; of the others keep those that may skip by themselves."""
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        case = case_of(item)
        marks = [skipping(mark.kwargs) for mark in item.iter_markers("skip_case")]
        holding = [skip for skip in marks if applies(skip, case)]
        owed = bool(holding) and all(_owed(skip) for skip in holding)
        if owed:
            config.stash[_LIFTED].add(item.nodeid)
        (kept if owed or "skip_case" in getattr(item, "fixturenames", ()) else dropped).append(item)
    for item in kept:
        for node in item.listchain():
            node.own_markers[:] = [
                mark
                for mark in node.own_markers
                if mark.name != "skip_case" or not _owed(skipping(mark.kwargs))
            ]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    passed = config.stash[_PASSED]
    lifted = config.stash[_LIFTED]
    found = {nodeid: passed.get(nodeid, False) for nodeid in sorted(lifted)}
    Path(config.option.audit_lifted).write_text(json.dumps(found), encoding="utf-8")


def _owed(skip: Skipping) -> bool:
    return skip.kind not in ELSEWHERE
