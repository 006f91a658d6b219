"""The committed list of required cases: which ones must have evidence before a cell of the matrix claims anything.

One file a family, `cases/required/<family>.txt`. Its first line is `# ` and a JSON object with what all cases of the
family share; every further line is one case, sorted by ID, in five columns separated by tabs:

    case ID    encoding or -    dimension    backend    row,row

The files are written from the code and committed, so that a case that disappears from the code is a difference that
somebody has to agree to, never a smaller number of cases that all pass.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import BadInput, UsageProblem
from harness.evidence.case import Case
from harness.evidence.code_hash import Read, code_hash_of, relative_files
from harness.paths import REPOSITORY
from harness.report.output import write_text
from harness.rows.model import BACKEND, Dimension

SCHEMA = "harness-required/1"
FOLDER = Path("cases") / "required"
_FAMILY = re.compile(r"^[a-z0-9][a-z0-9_.-]*$")
_COLUMNS = "five columns: case, encoding or -, dimension, backend, rows"


@dataclass(frozen=True)
class RequiredCase:
    """One line of the list."""

    case: str
    encoding: str | None
    dimension: Dimension
    backend: str
    rows: tuple[str, ...]

    def line(self) -> str:
        columns = (self.case, self.encoding or "-", self.dimension.value, self.backend, ",".join(self.rows))
        return "\t".join(columns)


@dataclass(frozen=True)
class RequiredFamily:
    """One file of the list. `files` define the family, relative to the repository; `nightly` is why only that run has it."""

    family: str
    op: str
    bound: str
    files: tuple[str, ...]
    cases: tuple[RequiredCase, ...]
    nightly: str = ""

    def text(self) -> str:
        """The file's content."""
        head = {
            "schema": SCHEMA,
            "family": self.family,
            "op": self.op,
            "bound": self.bound,
            "files": self.files,
            **({"nightly": self.nightly} if self.nightly else {}),
        }
        return "\n".join([f"# {json.dumps(head)}", *(case.line() for case in self.cases), ""])


@dataclass(frozen=True)
class Required:
    """The whole list of the tree at `root`."""

    root: Path
    families: Mapping[str, RequiredFamily]

    @cached_property
    def by_case(self) -> dict[str, tuple[RequiredFamily, RequiredCase]]:
        return {case.case: (family, case) for family in self.families.values() for case in family.cases}

    @cached_property
    def cells(self) -> dict[tuple[str, Dimension, str], dict[str, tuple[RequiredCase, ...]]]:
        """(row, dimension, backend) -> family -> its cases there."""
        found: dict[tuple[str, Dimension, str], dict[str, list[RequiredCase]]] = defaultdict(dict)
        for name, family in self.families.items():
            for case in family.cases:
                for row in case.rows:
                    found[row, case.dimension, case.backend].setdefault(name, []).append(case)
        return {
            cell: {name: tuple(cases) for name, cases in families.items()} for cell, families in found.items()
        }

    @cached_property
    def _read(self) -> Read:
        return Read()

    @cached_property
    def _hashes(self) -> dict[tuple[str, str | None, str], str]:
        return {}

    def code_hash(self, case: str) -> str:
        """The code hash of a required case in the tree as it is now."""
        family, entry = self.by_case[case]
        group = (family.family, entry.encoding, entry.backend)
        if group not in self._hashes:
            self._hashes[group] = code_hash_of(
                op=family.op,
                encoding=entry.encoding,
                backend=entry.backend,
                bound=family.bound,
                files=family.files,
                root=self.root,
                read=self._read,
            )
        return self._hashes[group]


def load_required(root: Path = REPOSITORY) -> Required:
    """The list of the tree at `root`. Raises BadInput naming file and line of what does not fit."""
    families: dict[str, RequiredFamily] = {}
    owners: dict[str, Path] = {}
    for path in sorted((root / FOLDER).glob("*.txt")):
        family = _read(path)
        families[family.family] = family
        for number, case in enumerate(family.cases, start=2):
            if case.case in owners:
                raise BadInput(
                    file=path,
                    field=f"line {number}",
                    got=case.case,
                    wanted=f"a case that {owners[case.case].name} does not hold",
                )
            owners[case.case] = path
    return Required(root, families)


def from_code(cases: Iterable[Case]) -> dict[str, RequiredFamily]:
    """What the list has to say about the families of `cases`, of which all cases must be given."""
    members: dict[str, dict[str, Case]] = defaultdict(dict)
    for case in cases:
        if case.id in members[case.family]:
            raise UsageProblem(f"two cases are called {case.id}")
        members[case.family][case.id] = case
    return {name: _family_of(name, members[name]) for name in sorted(members)}


def write_required(cases: Iterable[Case], root: Path = REPOSITORY) -> tuple[Path, ...]:
    """Write the files of the families that `cases` belong to; give all cases of each. Returns the files that changed."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, family in from_code(cases).items():
        path = folder / f"{name}.txt"
        if not path.is_file() or path.read_text(encoding="utf-8") != family.text():
            write_text("the required cases", str(path), family.text())
            changed.append(path)
    return tuple(changed)


def differences(cases: Iterable[Case], root: Path = REPOSITORY, *, whole: bool = False) -> tuple[str, ...]:
    """How the committed list differs from the code, a line each; empty when it is current.

    `cases` holds all cases of every family in it. With `whole` they are all cases that there are, so that a family of
    the list that is not among them is a difference too.
    """
    listed = load_required(root).families
    found: list[str] = []
    coded = from_code(cases)
    for name, family in coded.items():
        found += _family_differences(name, family, listed.get(name))
    if whole:
        found += [
            f"{name}: the whole family is in the list and not in the code"
            for name in sorted(set(listed) - set(coded))
        ]
    return tuple(found)


def _family_differences(name: str, code: RequiredFamily, listed: RequiredFamily | None) -> list[str]:
    if listed is None:
        return [f"{name}: the family is in the code and not in the list ({len(code.cases)} cases)"]
    found = [
        f"{name}: {field} is {getattr(code, field)!r} in the code and {getattr(listed, field)!r} in the list"
        for field in ("op", "bound", "files", "nightly")
        if getattr(code, field) != getattr(listed, field)
    ]
    in_code = {case.case: case for case in code.cases}
    in_list = {case.case: case for case in listed.cases}
    found += [f"{case}: in the list and not in the code" for case in sorted(set(in_list) - set(in_code))]
    found += [f"{case}: in the code and not in the list" for case in sorted(set(in_code) - set(in_list))]
    found += [
        f"{case}: {in_code[case].line().split(chr(9))[1:]} in the code, {in_list[case].line().split(chr(9))[1:]} in the list"
        for case in sorted(set(in_code) & set(in_list))
        if in_code[case] != in_list[case]
    ]
    return found


def _family_of(name: str, cases: Mapping[str, Case]) -> RequiredFamily:
    if not _FAMILY.match(name):
        raise UsageProblem(f"family {name!r}: its name becomes a file's, so only a-z, 0-9, _, . and -")
    shared = {(case.op, case.bound, relative_files(case.files), case.nightly) for case in cases.values()}
    if len(shared) != 1:
        raise UsageProblem(f"family {name}: its cases differ in op, bound, defining files or nightly")
    op, bound, files, nightly = shared.pop()
    entries = [
        RequiredCase(case.id, case.encoding, case.dimension, case.backend, tuple(sorted(case.rows)))
        for case in cases.values()
    ]
    for entry in entries:
        if not entry.rows:
            raise UsageProblem(f"case {entry.case}: it belongs to no row")
        if any(not part.isprintable() or not part or " " in part for part in entry.line().split("\t")):
            raise UsageProblem(
                f"case {entry.case!r}: IDs, encodings and rows are printable and hold no space"
            )
    return RequiredFamily(
        name, op, bound, files, tuple(sorted(entries, key=lambda entry: entry.case)), nightly
    )


def _read(path: Path) -> RequiredFamily:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(file=path, field="(file)", got=error, wanted="a readable UTF-8 file") from None
    if lines.pop() != "":
        raise BadInput(file=path, field="(file)", got="no newline at its end", wanted="a whole last line")
    head = _head(path, lines[0] if lines else "")
    cases: list[RequiredCase] = []
    for number, line in enumerate(lines[1:], start=2):
        case = _case(path, number, line)
        if cases and case.case <= cases[-1].case:
            raise BadInput(
                file=path, field=f"line {number}", got=case.case, wanted="cases sorted by ID, each once"
            )
        cases.append(case)
    if not cases:
        raise BadInput(file=path, field="(file)", got="no case", wanted="at least one case")
    files, nightly = tuple(head["files"]), head.get("nightly", "")
    return RequiredFamily(head["family"], head["op"], head["bound"], files, tuple(cases), nightly)


def _head(path: Path, line: str) -> dict[str, Any]:
    try:
        head = json.loads(line.removeprefix("# "))
    except ValueError:
        head = None
    wanted = {"schema": SCHEMA, "family": path.stem}
    valid = (
        isinstance(head, dict)
        and set(head) - {"nightly"} == {"schema", "family", "op", "bound", "files"}
        and all(isinstance(head[name], str) for name in ("op", "bound"))
        and isinstance(head.get("nightly", ""), str)
        and isinstance(head["files"], list)
        and all(isinstance(name, str) for name in head["files"])
    )
    if not isinstance(head, dict) or not valid or any(head[name] != wanted[name] for name in wanted):
        raise BadInput(
            file=path,
            field="line 1",
            got=line,
            wanted=f"# and a JSON object with schema {SCHEMA}, family {path.stem}, op, bound and files",
        )
    return head


def _case(path: Path, number: int, line: str) -> RequiredCase:
    columns = line.split("\t")
    where = f"line {number}"
    if len(columns) != 5 or not all(columns):
        raise BadInput(file=path, field=where, got=line, wanted=_COLUMNS)
    case, encoding, dimension, backend, rows = columns
    if dimension not in set(Dimension):
        raise BadInput(file=path, field=where, got=dimension, wanted=f"one of {', '.join(Dimension)}")
    if not re.match(BACKEND, backend):
        raise BadInput(file=path, field=where, got=backend, wanted="a backend")
    return RequiredCase(
        case, None if encoding == "-" else encoding, Dimension(dimension), backend, tuple(rows.split(","))
    )
