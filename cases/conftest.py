"""Fixtures of the cases: the oracles, opened once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.plugin.memo import MEMO
from oracles.pool import Pool


@pytest.fixture(scope="session")
def oracle_pool(pytestconfig: pytest.Config) -> Iterator[Pool]:
    """The pinned oracles; each is installed and started at its first use, and asked what the memo does not hold."""
    with Pool(memo=pytestconfig.stash[MEMO]) as pool:
        yield pool
