"""The ledger: what runs have shown, one line a row x dimension x backend x kernel x pins x device, committed to git.

`results/ledger/ledger.jsonl` is only ever appended to. The lines of a run follow one line that says what they share:
commit, time, pins. Each line holds the sha256 of the line before it, and
`head.json` beside it the number of lines and the sha256 of the last one: an edited, removed, moved, inserted, appended
or cut-off line is refused with its number. The chain shows that nobody edited the file by hand; that a claim is true is
shown by running it again (`harness.evidence.recompute`), never by the file.

No line holds a state. States are computed (`harness.matrix.states`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import BadInput
from harness.evidence.ledger_lines import Line, Record, RunLine, Sha256
from harness.paths import REPOSITORY
from harness.report.output import write_text
from harness.report.strict_json import dumps
from harness.rows.model import Dimension

FOLDER = Path("results") / "ledger"
LEDGER, HEAD = FOLDER / "ledger.jsonl", FOLDER / "head.json"
GENESIS = "0" * 64
LARGEST = 5_000_000
"""Bytes that the file stays below."""

_Model = TypeVar("_Model", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Compacted(_Strict):
    """The file that this one goes on from: its length and the sha256 of its last line."""

    lines: int
    sha256: Sha256


class Head(_Strict):
    schema_: Literal["harness-ledger/1"] = Field(default="harness-ledger/1", alias="schema")
    lines: int
    sha256: Sha256
    before: Compacted | None = None


@dataclass(frozen=True)
class Ledger:
    """The lines as the file holds them, and what they say."""

    texts: tuple[str, ...]
    records: tuple[Record, ...]
    head: Head

    def newest(self) -> dict[tuple[str, Dimension, str], dict[tuple[str, ...], Record]]:
        """cell -> devices -> the newest record of them."""
        found: dict[tuple[str, Dimension, str], dict[tuple[str, ...], Record]] = {}
        for record in self.records:
            found.setdefault(record.cell, {})[record.devices] = record
        return found


EMPTY = Ledger((), (), Head(lines=0, sha256=GENESIS))


def sha256(line: str) -> str:
    """The digest of a line by which the next one holds on to it."""
    return hashlib.sha256(line.encode()).hexdigest()


def read_ledger(root: Path = REPOSITORY) -> Ledger:
    """The ledger of the tree at `root`, empty when there is none. Raises BadInput naming the line that breaks it."""
    path, head_path = root / LEDGER, root / HEAD
    if not path.exists() and not head_path.exists():
        return EMPTY
    texts = _texts(path)
    head = _validated(Head, _bytes(head_path), head_path, "")
    lines: list[Line | RunLine] = []
    digests = [head.before.sha256 if head.before else GENESIS]
    for number, text in enumerate(texts, start=1):
        line = _read_line(path, number, text)
        if line.prev != digests[-1]:
            raise _broken(path, number, line.prev, digests, [sha256(other) for other in texts])
        lines.append(line)
        digests.append(sha256(text))
    _check_head(path, head, len(lines), digests[-1])
    return Ledger(tuple(texts), _records(path, lines), head)


def append(records: Iterable[Record], ledger: Ledger, root: Path = REPOSITORY) -> Ledger:
    """Add records, chained to the last line. Raises BadInput when the file grows too long."""
    _write(list(ledger.texts), records, ledger.head.before, root)
    return read_ledger(root)


def compact(ledger: Ledger, root: Path = REPOSITORY) -> Ledger:
    """Begin the file anew with the newest record of each cell and devices, chained to the old file's last line."""
    live = {record.first for devices in ledger.newest().values() for record in devices.values()}
    kept = [record for record in ledger.records if record.first in live]
    _write([], kept, Compacted(lines=ledger.head.lines, sha256=ledger.head.sha256), root)
    return read_ledger(root)


def _write(texts: list[str], records: Iterable[Record], before: Compacted | None, root: Path) -> None:
    start = before.sha256 if before else GENESIS
    run = None
    for record in records:
        lines: tuple[Line | RunLine, ...] = record.lines
        if record.source.run != run:
            run = record.source.run
            lines = (record.source, *lines)
        for line in lines:
            prev = sha256(texts[-1]) if texts else start
            texts.append(line.model_copy(update={"prev": prev}).text())
    content = "".join(f"{text}\n" for text in texts)
    if len(content.encode()) >= LARGEST:
        raise BadInput(
            file=root / LEDGER,
            field="(size)",
            got=f"{len(content.encode())} bytes with the new lines",
            wanted=f"less than {LARGEST}",
            hint="harness results promote --compact keeps the newest lines only",
        )
    head = Head(lines=len(texts), sha256=sha256(texts[-1]) if texts else start, before=before)
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    write_text("the ledger", str(root / LEDGER), content)
    write_text("the ledger's head", str(root / HEAD), dumps(head.model_dump(mode="json", by_alias=True)))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(file=path, field="(file)", got=error.strerror, wanted="a readable file") from None


def _texts(path: Path) -> list[str]:
    try:
        texts = _bytes(path).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise BadInput(file=path, field="(file)", got=error, wanted="UTF-8") from None
    if texts.pop() != "":
        raise BadInput(
            file=path, field=f"line {len(texts) + 1}", got="no newline at its end", wanted="a whole line"
        )
    return texts


def _read_line(path: Path, number: int, text: str) -> Line | RunLine:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise BadInput(file=path, field=f"line {number}", got=error, wanted="JSON") from None
    if isinstance(content, dict) and "row" in content:
        return _validated(Line, text.encode(), path, f"line {number}")
    return _validated(RunLine, text.encode(), path, f"line {number}")


def _validated(model: type[_Model], data: bytes, path: Path, where: str) -> _Model:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    raise BadInput(
        file=path,
        field=", ".join(filter(None, (where, field))) or "(whole)",
        got="nothing" if first["type"] == "missing" else first["input"],
        wanted=first["msg"],
    )


def _broken(
    path: Path, number: int, prev: str, digests: Sequence[str], all_digests: Sequence[str]
) -> BadInput:
    """The chain does not hold at `number`: say what was done to the file, as far as it can be told."""
    if prev in all_digests:
        after = all_digests.index(prev) + 1
        why = f"it was written after line {after} as it is now: a line was moved or inserted before it"
    elif number == 1:
        why = "the first lines were removed, or the first line was not written by promote"
    else:
        why = f"line {number - 1} was edited, a line between them was removed, or promote did not write line {number}"
    return BadInput(
        file=path,
        field=f"line {number}, prev",
        got=prev,
        wanted=f"{digests[-1]}, the sha256 of the line before",
        hint=why,
    )


def _check_head(path: Path, head: Head, lines: int, digest: str) -> None:
    hint = "git restore brings the ledger back; harness results promote is the only thing that writes it"
    if lines < head.lines:
        raise BadInput(
            file=path,
            field=f"line {lines + 1}",
            got=f"nothing after line {lines}",
            wanted=f"{head.lines} lines, as {HEAD.name} says: the tail was cut off",
            hint=hint,
        )
    if lines > head.lines:
        raise BadInput(
            file=path,
            field=f"line {head.lines + 1}",
            got=f"{lines} lines",
            wanted=f"{head.lines} lines, as {HEAD.name} says: promote did not write what follows",
            hint=hint,
        )
    if digest != head.sha256:
        raise BadInput(
            file=path,
            field=f"line {lines}",
            got=f"sha256 {digest}",
            wanted=f"{head.sha256}, as {HEAD.name} says: the last line was edited",
            hint=hint,
        )


def _records(path: Path, lines: Sequence[Line | RunLine]) -> tuple[Record, ...]:
    found: list[Record] = []
    source: RunLine | None = None
    numbered = enumerate(lines, start=1)
    for _, group in groupby(numbered, key=lambda item: _cell_of(item[1])):
        members = list(group)
        first = members[0][0]
        cells = tuple(line for _, line in members if isinstance(line, Line))
        if not cells:
            source = next(line for _, line in members[-1:] if isinstance(line, RunLine))
            continue
        if source is None or any(
            line.run != source.run or set(line.pins) - set(source.pins) for line in cells
        ):
            raise BadInput(
                file=path,
                field=f"line {first}, run",
                got=cells[0].run,
                wanted="the run and pins of the line that stands before a run's lines",
            )
        record = Record(first, source, cells)
        required = sum(part.cases for part in record.families.values())
        ran = sum(record.verdicts.values())
        if any(line.families != record.families for line in cells) or ran != required:
            raise BadInput(
                file=path,
                field=f"line {first}, verdicts",
                got=f"{ran} verdicts",
                wanted=f"one for each of the {required} required cases that its families name",
            )
        found.append(record)
    return tuple(found)


def _cell_of(line: Line | RunLine) -> tuple[str, ...]:
    """What lines of one record have in common."""
    return (line.row, line.dimension, line.backend) if isinstance(line, Line) else ()
