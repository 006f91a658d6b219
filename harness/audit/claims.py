"""Skips that contradict the matrix: in the debt of a row that claims to owe nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.audit.skips import Declared
from harness.matrix.model import Matrix
from harness.matrix.states import State
from harness.plugin.findings import Finding

CODE = "skip-of-passing-row"


def find(skips: Iterable[Declared], matrix: Matrix) -> Iterator[Finding]:
    """One finding a skip whose cells claim `pass`.

    Only skips that hold everywhere can contradict a claim: what waits for a device or a platform runs on another
    machine, and what a test decides by itself is counted by its evidence. A test without cases leaves no evidence, so
    that no cell shows its debt: there a `pass` in any dimension of the row is one too many.
    """
    states = {
        (row.id, dimension, backend): state
        for row in matrix.rows
        for dimension, shown in row.dimensions.items()
        for backend, state in shown.backends.items()
    }
    for skip in skips:
        if skip.when != "always":
            continue
        if skip.cases:
            cells = {(row, case.dimension, case.backend) for case in skip.cases for row in case.rows}
        else:
            cells = {cell for cell in states if cell[0] == skip.row}
        passing = sorted(" ".join(cell) for cell in cells if states.get(cell) is State.PASS)
        if passing:
            words = f"{skip.test.name} is skipped ({skip.kind}) in the debt of {skip.row}, and {', '.join(passing)} claims pass"
            yield Finding(CODE, skip.file, skip.line, words)
