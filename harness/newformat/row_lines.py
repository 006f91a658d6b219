"""The coverage row of a format: one that is there and names it, or one that is added to the end of a row file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from harness.errors import BadInput, UsageProblem
from harness.newformat.request import Request
from harness.rows.load import load_rows
from harness.rows.model import Row

DATA = "harness/rows/data"
FILE = f"{DATA}/ours.yaml"


def with_row(request: Request, tree: Path, *, row: str, head: str) -> dict[str, str]:
    """The row file as it will be, by its path; nothing where the row is there already.

    `row` is the row's text and `head` that of a file that has none yet. Nothing of a file that is there is changed but
    its end. Raises UsageProblem for a row that is somebody else's, BadInput where the file could not be read afterwards.
    """
    there = _rows(tree)
    if request.row in there:
        found = there[request.row]
        if not request.row_given:
            raise UsageProblem(f"row {request.row} is there already: --row {request.row} joins it")
        if request.kind == "encoding" and request.format not in found.encodings:
            names = ", ".join(found.encodings) or "none"
            raise UsageProblem(f"--row {request.row}: its encodings are {names}, and not {request.format}")
        if not found.claimable:
            raise UsageProblem(f"--row {request.row}: it claims nothing itself, and so holds no evidence")
        return {}
    file = tree / FILE
    before = file.read_text(encoding="utf-8") if file.is_file() else head
    text = before if before.endswith("\n") else f"{before}\n"
    text += row.rstrip("\n") + "\n"
    if request.row not in _rows(tree, text):
        raise BadInput(file=file, field="rows", got="other keys after it", wanted="rows as the last key")
    return {FILE: text}


def _rows(tree: Path, ours: str | None = None) -> dict[str, Row]:
    """The rows of a tree, read elsewhere, with another content of our file where one is given: nothing is written yet."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "data"
        shutil.copytree(tree / DATA, copy)
        if ours is not None:
            (copy / Path(FILE).name).write_text(ours, encoding="utf-8")
        try:
            return load_rows(copy)
        except BadInput as problem:
            file = tree / DATA / Path(problem.file).name
            raise BadInput(
                file=file, field=problem.field, got=problem.got, wanted=problem.wanted, hint=problem.hint
            ) from None
