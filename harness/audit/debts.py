"""Debts that are paid: skipped cases that pass when they are run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.audit.collect import finish, start_pytest
from harness.audit.skips import ELSEWHERE, EXPECTED_FAILURE, Declared
from harness.errors import Unavailable
from harness.plugin.findings import Finding

CODE = "passing-debt"
TIMEOUT = 24 * 3600
"""Seconds. What is skipped as too slow takes as long as it takes."""


def find(skips: Iterable[Declared], root: Path) -> Iterator[Finding]:
    """Run what the debts skip, without their skips; one finding for each skip of which cases pass.

    Expected failures are strict and run anyway. Raises Unavailable when pytest fails to run them.
    """
    owed = [skip for skip in skips if skip.kind not in ELSEWHERE and skip.kind != EXPECTED_FAILURE]
    if not owed:
        return
    results = _run(list(dict.fromkeys(skip.test.nodeid for skip in owed)), root)
    for skip in owed:
        names = [f"{skip.test.nodeid}[{case.id}]" for case in skip.cases] or [
            name for name in results if name.partition("[")[0] == skip.test.nodeid
        ]
        lifted = [name for name in names if name in results]
        passed = [name for name in lifted if results[name]]
        if passed:
            words = (
                f"{len(passed)} of {len(lifted)} skipped cases of {skip.test.name} pass: take the skip away, or "
                f"narrow it ({skip.row}, {skip.kind}: {skip.reason})"
            )
            yield Finding(CODE, skip.file, skip.line, words)


def _run(nodeids: list[str], root: Path) -> dict[str, bool]:
    """Node ID -> whether it passed, of every case whose skip was lifted."""
    with tempfile.TemporaryDirectory(prefix="harness-audit-") as folder:
        file = Path(folder) / "lifted.json"
        process = start_pytest(root, "-p", "harness.audit.lift", f"--audit-lifted={file}", *nodeids)
        words = finish(process, TIMEOUT)
        if not file.is_file():
            raise Unavailable(f"the skipped cases could not be run: {words}")
        found: dict[str, bool] = json.loads(file.read_text(encoding="utf-8"))
        return found
