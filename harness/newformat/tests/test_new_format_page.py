"""docs/new-format.md, done as it says: every command in a copy of the tree, every line of output held against the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from harness.newformat.tests.conftest import copied
from harness.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "new-format.md"
TREE = ("kernels", "harness", "cases", "oracles", "recipes")
SECONDS = re.compile(r" in \d+\.\d+s")


def commands(page: str) -> list[tuple[str, list[str]]]:
    """Each command of the console blocks with the lines that it prints; `...` stands for any."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(SECONDS.sub("", line))
    return found


def shown(wanted: list[str], got: list[str]) -> str:
    """The first line of the page that does not come, in its turn; empty when all do."""
    rest, free = list(got), False
    for line in wanted:
        if line == "...":
            free = True
            continue
        while free and rest and rest[0] != line:
            rest.pop(0)
        if not rest or rest.pop(0) != line:
            return line
        free = False
    return "" if free or not rest else f"and no more, but {rest[0]!r}"


def test_a_reader_of_the_page_sees_something_else(tmp_path: Path) -> None:
    copied(tmp_path, *TREE)
    for name in ("conftest.py", "pyproject.toml"):
        (tmp_path / name).write_bytes((REPOSITORY / name).read_bytes())
    # The copy comes before the installed harness, and its own commands before those of the system.
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path),
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    done = commands(PAGE.read_text(encoding="utf-8"))
    assert sum(command.startswith("harness new-format") for command, _ in done) == 4
    for command, wanted in done:
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        got = [SECONDS.sub("", line) for line in ran.stdout.splitlines()]
        assert shown(wanted, got) == "", f"$ {command}\n{ran.stdout}{ran.stderr}"
        assert "Traceback" not in ran.stderr
    assert ran.returncode == 0


def test_the_page_shows_code_that_is_not_in_the_files() -> None:
    data = Path(__file__).parent / "data" / "bnb_nf4"
    kept = "\n".join(path.read_text() for path in sorted(data.rglob("*.txt")))
    blocks = re.findall(r"```(?:python|yaml)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 6
    assert [line for line in lines if line not in kept] == []
