"""The memo of a session: answers of oracles from earlier runs, unless `--refresh` wants them live (docs/oracles.md)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from oracles.memo import Memo

MEMO = pytest.StashKey[Memo]()
"""What the fixtures that open oracles give to `oracles.pool.Pool`."""
_FOUND = pytest.StashKey[Counter[str]]()
_SENT = "harness_memo_hits"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cases", "cases and evidence")
    group.addoption(
        "--refresh",
        action="store_true",
        help="ask the oracles again, whatever the memo holds: what is promoted has to be live",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MEMO] = Memo(refresh=config.option.refresh)
    config.stash[_FOUND] = Counter[str]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells the controller how much it did not have to ask."""
    hits = session.config.stash[MEMO].hits
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[_SENT] = hits
    else:
        session.config.stash[_FOUND]["answers"] += hits


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_FOUND]["answers"] += getattr(node, "workeroutput", {}).get(_SENT, 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if found := config.stash[_FOUND]["answers"]:
        words = f"{found} answers of oracles came from the memo; --refresh asks again, as promotion wants it"
        terminalreporter.write_line(words)
