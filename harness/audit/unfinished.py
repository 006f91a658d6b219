"""Formats that were begun and are not finished: parts that are missing, that are stubs, or that nobody names.

`harness new-format` writes a `bar.yaml` into each unit: the list of its parts. A unit without one, of those that were here
before, is held to what every unit has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.errors import BadInput
from harness.newformat.bar import FILE, Bar, Stand, read_bar
from harness.newformat.parts import MARKER, PARTS, Part, parts_of
from harness.newformat.plan import folder_of
from harness.newformat.request import Request
from harness.plugin.expectations import reason_problems
from harness.plugin.findings import Finding
from harness.rows.load import load_rows
from harness.rows.model import Row
from kernels.method import check_method
from kernels.units import read_unit

CODE = "unfinished-unit"
_ALWAYS = {"unit.yaml": ("reference.py", "known.yaml"), "method.py": (FILE,)}
"""What is never alone in a unit's folder."""
_ROWS = Path("harness") / "rows" / "data"
_STUB = re.compile(r"\braise NotImplementedError\b")


def find(root: Path) -> Iterator[Finding]:
    """One finding for each part that is missing, unwritten, or not applicable without a reason."""
    for folder in sorted(path for path in root.glob("kernels/*/*") if path.is_dir()):
        yield from of_unit(root, folder)


def of_unit(root: Path, folder: Path) -> Iterator[Finding]:
    """The findings about the unit in `folder`; none for a folder that is no unit."""
    if (folder / FILE).is_file():
        yield from dict.fromkeys(_barred(root, folder))
        return
    for first, others in _ALWAYS.items():
        if (folder / first).is_file():
            gone = [name for name in others if not (folder / name).is_file()]
            yield from (_at(root, folder / first, 1, _name(folder), name, "it is missing") for name in gone)


def _barred(root: Path, folder: Path) -> Iterator[Finding]:
    path, name = folder / FILE, _name(folder)
    try:
        bar = read_bar(path)
    except BadInput as problem:
        yield Finding(
            CODE, path.relative_to(root).as_posix(), 1, f"{name}: {problem.field}: wanted {problem.wanted}"
        )
        return
    request = Request(folder.parent.name, folder.name, bar.kind, bar.row, row_given=True)
    for part in parts_of(request):
        line = _line_of(path, part.name)
        for words in _problems(root, part, bar.parts.get(part.name)):
            yield _at(root, path, line, name, part.name, words)
    for other in sorted(set(bar.parts) - {part.name for part in PARTS[bar.kind]}):
        yield _at(root, path, _line_of(path, other), name, other, "there is no such part")
    if words := _row_problem(root, request):
        yield _at(root, path, _line_of(path, "row"), name, "row", words)
    yield from _stubs(root, folder, bar)
    if bar.kind == "method" and (folder / "method.py").is_file():
        for lack in check_method(folder / "method.py"):
            yield _at(root, folder / "method.py", lack.line, name, "method", lack.message)


def _problems(root: Path, part: Part, stand: Stand | None) -> Iterator[str]:
    if stand is None:
        yield f"it is not in {FILE}: {part.meaning}"
    elif stand.file is None:
        yield from reason_problems(stand.not_applicable)
        if part.template and (root / part.file).is_file():
            yield f"it does not apply, and {part.file} is there"
    elif not (root / stand.file).is_file():
        yield f"{stand.file} is missing: {part.meaning}"
    elif part.function and not stand.function:
        yield f"{FILE} names no function: wanted {part.function}, or the one that stands for it"
    elif stand.function and stand.function not in _defined(root / stand.file):
        yield f"{stand.file} has no function {stand.function}: {part.meaning}"


def _row_problem(root: Path, request: Request) -> str:
    row = _rows(root).get(request.row)
    if row is None:
        return f"there is no row {request.row}"
    if request.kind == "method":
        return ""
    if request.format not in row.encodings:
        return f"the encodings of {request.row} are others"
    try:
        rows = read_unit(root / folder_of(request) / "unit.yaml").rows
    except BadInput as problem:
        return f"unit.yaml, {problem.field}: wanted {problem.wanted}"
    return "" if request.row in rows else f"unit.yaml names {', '.join(rows)}, and not {request.row}"


def _stubs(root: Path, folder: Path, bar: Bar) -> Iterator[Finding]:
    """Lines that say that a part is not written, and stubs that have lost these words."""
    name = _name(folder)
    files = {path for path in folder.iterdir() if path.is_file() and path.suffix != ".pyc"}
    files |= {
        root / stand.file for stand in bar.parts.values() if stand.file and (root / stand.file).is_file()
    }
    for path in sorted({*files, *(root / _ROWS).glob("*.yaml")}):
        own = path.parent == folder
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        ):
            marks = [mark for mark in MARKER.finditer(line) if mark["format"] == name]
            for mark in marks:
                words = f"{mark['what']} is not written" if mark["what"] else "it is not written"
                yield _at(root, path, number, name, mark["part"], words)
            if own and not marks and path.suffix == ".py" and _STUB.search(line):
                yield _at(root, path, number, name, path.stem, "it is a stub")


def _defined(path: Path) -> frozenset[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return frozenset(re.findall(r"^\s*def (\w+)", text, re.MULTILINE))


def _rows(root: Path) -> dict[str, Row]:
    """The rows of the tree; none where it has no row files, or none that can be read, which is another finding."""
    try:
        return load_rows(root / _ROWS)
    except BadInput:
        return {}


def _at(root: Path, path: Path, line: int, name: str, part: str, words: str) -> Finding:
    return Finding(CODE, path.relative_to(root).as_posix(), line, f"{name}: {part}: {words}")


def _name(folder: Path) -> str:
    return f"{folder.parent.name}.{folder.name}"


def _line_of(path: Path, key: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(
        (number for number, line in enumerate(lines, start=1) if line.strip().startswith(f"{key}:")), 1
    )
