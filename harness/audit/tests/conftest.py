"""Trees to audit: the good file, the known-bad ones, and audits of them that several tests look at."""

from __future__ import annotations

import datetime
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.audit.model import Audit
from harness.audit.run import audit
from harness.matrix.compute import compute
from harness.matrix.model import Matrix
from harness.matrix.states import State
from harness.rows.load import load_rows
from harness.rows.model import Dimension

HERE = Path(__file__).parent
KNOWN_BAD = {
    path.name.removesuffix(".py.txt"): path for path in sorted((HERE / "known_bad").glob("*.py.txt"))
}
"""Code, with `_` for `-` -> the file that has it and no other."""
SOON = datetime.date.today() + datetime.timedelta(days=30)


def make_tree(root: Path, *names: str) -> Path:
    """A suite of the good file and of these known-bad ones, `test_<name>.py` each."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    for path in (HERE / "tree").glob("*.py.txt"):
        write(root / path.name.removesuffix(".txt"), path)
    for name in names:
        write(root / f"test_{name}.py", KNOWN_BAD[name])
    return root


def write(target: Path, source: Path) -> None:
    target.write_text(source.read_text().replace("{soon}", str(SOON)))


def claiming(row: str) -> Matrix:
    """The matrix of a tree without evidence, in which one row claims `pass` for Materialize on the CPU."""
    nothing = compute(load_rows().values(), HERE / "no such tree")
    rows = []
    for entry in nothing.rows:
        shown = entry.dimensions[Dimension.MATERIALIZE]
        if entry.id == row:
            shown = shown.model_copy(
                update={"state": State.PASS, "backends": {**shown.backends, "cpu": State.PASS}}
            )
        rows.append(
            entry.model_copy(update={"dimensions": {**entry.dimensions, Dimension.MATERIALIZE: shown}})
        )
    return nothing.model_copy(update={"rows": tuple(rows)})


@dataclass(frozen=True)
class Audits:
    """The tree of all known-bad files: audited without the one that grows, and with it, held against the first."""

    root: Path
    before: Audit
    after: Audit

    def codes_of(self, file: str) -> set[str]:
        return {finding.code for finding in self.after.findings if finding.file == file}


@pytest.fixture(scope="session")
def audits(tmp_path_factory: pytest.TempPathFactory) -> Audits:
    root = make_tree(tmp_path_factory.mktemp("bad") / "tree", *KNOWN_BAD)
    matrix = claiming("QUANT-GGUF-Q8_0")
    grown = root / "test_grown_skips.py"
    shutil.move(grown, root / "aside")
    before = audit(root, matrix=matrix)
    shutil.move(root / "aside", grown)
    return Audits(root, before, audit(root, before=before, run_skipped=True, matrix=matrix))
