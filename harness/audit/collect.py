"""Runs the collection of a tree in a process of its own, and reads what it found."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.audit.collected import Collected
from harness.errors import BadInput, Unavailable

TIMEOUT = 300
"""Seconds: of a collection that hangs nothing can be said."""
PLAIN = ("-qq", "--assert=plain", "-p", "no:cacheprovider", "--no-evidence", "--rootdir=.")
"""Options of every pytest that the audit starts: nothing rewritten, nothing kept."""


class Collection:
    """A collection that has been started; `result` waits for it."""

    def __init__(self, root: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="harness-audit-")
        self._file = Path(self._folder.name) / "collected.json"
        options = (
            *("--collect-only", "-p", "harness.audit.collector", f"--audit-collected={self._file}"),
            # Nothing runs that could leave an exception behind, and that plugin ends in a search through all objects.
            *("-p", "no:unraisableexception"),
        )
        self._process = start_pytest(root, *options)

    def result(self) -> Collected:
        """What was collected. Raises BadInput for a test file that cannot be imported, Unavailable when pytest fails
        or finds nothing."""
        with self._folder:
            words = finish(self._process, TIMEOUT)
            if not self._file.is_file():
                raise Unavailable(f"pytest collected nothing: {words}")
            found = Collected.model_validate_json(self._file.read_bytes())
        for file, error in found.broken.items():
            raise BadInput(
                file=file or "(session)", field="(file)", got=error, wanted="a test file that can be imported"
            )
        if not found.tests:
            raise Unavailable("nothing was collected: there is no suite to audit")
        return found


def start_pytest(root: Path, *arguments: str) -> subprocess.Popen[str]:
    """pytest in the tree at `root`, as its own users start it; options from the environment do not count."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *PLAIN, *arguments],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
    )


def finish(process: subprocess.Popen[str], timeout: float) -> str:
    """Wait for a pytest; the last line that it wrote. Raises Unavailable after `timeout` seconds."""
    try:
        out, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Unavailable(f"pytest has not ended after {timeout:.0f} s") from None
    return next((line for line in reversed(out.splitlines()) if line.strip()), "it wrote nothing")
