"""A fresh tree for each test that wants one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.evidence.tests.made import make_tree


@pytest.fixture(scope="session")
def first_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture
def tree(first_tree: Path, tmp_path: Path) -> Path:
    """A copy of what code hashes cover, under git, with its list of required cases and no ledger."""
    return Path(shutil.copytree(first_tree, tmp_path / "tree"))
