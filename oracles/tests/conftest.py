"""Fixtures: a cache of its own for every test that installs, and environments that are this interpreter."""

import sys
from pathlib import Path

import pytest

from oracles.install import Environment
from oracles.pool import Pool

PINS = Path(__file__).parent / "pins"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, so that nothing here touches the user's."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def this_interpreter(tmp_path):
    """A stand-in for `install.ensure`: an environment whose python is the one that runs the tests."""

    def ensure(pin, *, offline=False, progress=None):
        path = tmp_path / "environment" / pin.name
        if not path.exists():
            (path / "bin").mkdir(parents=True)
            (path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            (path / "bin" / "python").chmod(0o755)
        return Environment(
            pin, "fixture", path, {pin.package: {"version": pin.version, "sha256": pin.wheels["any"]}}
        )

    return ensure


@pytest.fixture
def fixture_pool(this_interpreter):
    with Pool(folder=PINS, ensure=this_interpreter) as pool:
        yield pool


@pytest.fixture(scope="session")
def real_pool():
    """The pinned oracles, installed into the user's cache on first use (needs the package registry once)."""
    with Pool() as pool:
        yield pool
