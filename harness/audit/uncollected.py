"""Test files that are in the tree and that the collection is told to leave out."""

from __future__ import annotations

import ast
import configparser
import fnmatch
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.audit.collected import Collected
from harness.audit.project import Module
from harness.plugin.findings import Finding

CODE = "module-skip"
PATTERNS = ("test_*.py", "*_test.py")
"""The names that pytest takes for test files unless it is told otherwise."""
_NOT_OURS = (".*", "build", "dist", "node_modules", "venv", "*.egg-info", "__pycache__")


_IGNORING = ("collect_ignore", "collect_ignore_glob")


def find(collected: Collected, modules: Iterable[Module], root: Path) -> Iterator[Finding]:
    """One finding for each place where a `conftest.py` leaves files out, on whatever machine it does so, and one for each
    test file below the folders of the suite that was not collected for another reason."""
    left_out: list[tuple[Path, str]] = []
    for module in modules:
        for line, patterns in _ignored(module):
            left_out += [(module.path.parent, pattern) for pattern in patterns]
            words = f"files are left out of the collection: {', '.join(patterns) or 'which ones, only a run can tell'}"
            yield Finding(CODE, module.file, line, words)
    seen = set(collected.files)
    for path in test_files(root):
        file = path.relative_to(root).as_posix()
        told = any(
            path.is_relative_to(above) and fnmatch.fnmatchcase(path.relative_to(above).as_posix(), pattern)
            for above, pattern in left_out
        )
        if file not in seen and not told:
            words = "the file is not collected: --ignore, norecursedirs or a hook leaves it out"
            yield Finding(CODE, file, 1, words)


def test_files(root: Path) -> list[Path]:
    """The files with the names of tests, where the configuration says that tests are; in the whole tree where it says
    nothing."""
    folders = [root / name for name in _testpaths(root) if (root / name).is_dir()] or [root]
    return sorted(path for folder in folders for path in _files(folder))


def _ignored(module: Module) -> Iterator[tuple[int, list[str]]]:
    """The statements of a file that name what is left out, each by its line and the names that are written there."""
    for node in ast.walk(module.tree):
        named: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            named = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            named = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # collect_ignore.append(…)
            named = [node.func.value]
        if any(isinstance(each, ast.Name) and each.id in _IGNORING for each in named):
            written = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            yield getattr(node, "lineno", 1), [value for value in written if isinstance(value, str)]


def _testpaths(root: Path) -> list[str]:
    if (root / "pytest.ini").is_file():
        parser = configparser.ConfigParser()
        parser.read(root / "pytest.ini", encoding="utf-8")
        return parser.get("pytest", "testpaths", fallback="").split()
    if (root / "pyproject.toml").is_file():
        document: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        options = document.get("tool", {}).get("pytest", {}).get("ini_options", {})
        return list(options.get("testpaths", ()))
    return []


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            if not any(fnmatch.fnmatchcase(path.name, name) for name in _NOT_OURS):
                yield from _files(path)
        elif any(fnmatch.fnmatchcase(path.name, name) for name in PATTERNS):
            yield path
