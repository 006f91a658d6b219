"""What git says about the code that a run used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness.errors import Unavailable
from harness.paths import REPOSITORY

CODE = (
    *("kernels", "harness", "oracles", "cases", "pyproject.toml"),
    *("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"),
)
"""What evidence depends on: a change here that is not committed makes a run that nobody can repeat. At the root pytest
runs `conftest.py`, and takes options and plugins from the files named after it."""

_SECONDS = 60


def commit(root: Path = REPOSITORY) -> str:
    """The full commit that is checked out. Raises Unavailable where there is no git or no commit."""
    return _git(root, "rev-parse", "HEAD").strip()


def uncommitted(root: Path = REPOSITORY) -> tuple[str, ...]:
    """Files of `CODE` that differ from the commit, untracked ones included, relative to `root`, sorted."""
    # Names that are not there are asked for too: a file that was removed is a difference.
    listing = _git(
        root, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--", *CODE
    )
    return tuple(sorted(entry[3:] for entry in listing.split("\0") if entry))


def committed_file(root: Path, path: str) -> bytes | None:
    """The bytes of a file in the commit that is checked out, or None when it is not in it."""
    if not _git(root, "ls-tree", "HEAD", "--", path).strip():
        return None
    return _run(root, "cat-file", "blob", f"HEAD:./{path}")


def _git(root: Path, *arguments: str) -> str:
    return _run(root, *arguments).decode("utf-8", "surrogateescape")


def _run(root: Path, *arguments: str) -> bytes:
    # A hook or another repository's variables would make git answer about some other tree.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"git does not answer: {error}") from None
    if done.returncode != 0:
        message = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Unavailable(f"git {arguments[0]} in {root}: {message[0] if message else 'failed'}")
    return done.stdout
