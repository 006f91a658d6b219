"""Fixtures of the cases: the oracles, opened once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oracles.pool import Pool


@pytest.fixture(scope="session")
def oracle_pool() -> Iterator[Pool]:
    """The pinned oracles; each is installed and started at its first use."""
    with Pool() as pool:
        yield pool
