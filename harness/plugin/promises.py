"""What a session has promised to run: nothing that was collected gets lost on the way, whatever another hook does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.plugin.findings import Finding, report_finding, shown
from harness.plugin.recorder import recorder_of

_COLLECTED = pytest.StashKey[list[pytest.Item]]()
_DESELECTED = pytest.StashKey[set[pytest.Item]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COLLECTED] = []
    config.stash[_DESELECTED] = set()


def pytest_itemcollected(item: pytest.Item) -> None:
    item.config.stash[_COLLECTED].append(item)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash[_DESELECTED].add(item)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Items that are gone and were not deselected are findings; those that are left must run."""
    config = session.config
    kept = config.stash[_DESELECTED].union(session.items)
    for item in config.stash[_COLLECTED]:
        if item not in kept:
            _, line, _ = item.reportinfo()
            where = shown(config, item.path), (line or 0) + 1
            words = f"{item.name} was collected, and taken away without being deselected"
            report_finding(None, config, Finding("lost-test", *where, words))
    if (recorder := recorder_of(config)) is not None and session.items:
        recorder.promised.update(item.nodeid for item in session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """The controller of xdist collects nothing itself."""
    if (recorder := recorder_of(node.config)) is not None:
        recorder.promised.update(ids)
