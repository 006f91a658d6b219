"""The ledger: what runs have shown, one line a row x dimension x backend x kernel x pins x device, committed to git.

`results/ledger/ledger.jsonl` is only ever appended to. Each line holds the sha256 of the line before it, and
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
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import BadInput
from harness.evidence.record import Number
from harness.paths import REPOSITORY
from harness.report.output import write_text
from harness.report.strict_json import dumps
from harness.rows.model import Backend, Dimension
from harness.verdicts import Verdict

FOLDER = Path("results") / "ledger"
LEDGER, HEAD = FOLDER / "ledger.jsonl", FOLDER / "head.json"
GENESIS = "0" * 64
LARGEST = 5_000_000
"""Bytes that the file stays below."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Short = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
_Model = TypeVar("_Model", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FamilyPart(_Strict):
    """What the cell required of one family: how many cases, a digest of their IDs, and of their code hashes."""

    cases: Annotated[int, Field(ge=1)]
    ids: Short
    code: Short


class PinPart(_Strict):
    """The pin that judged; `wheel` and `worker` are the first 16 digits of their sha256."""

    version: str
    wheel: Short
    worker: Short


class SkipPart(_Strict):
    kind: str
    reason: str
    owner: str
    expires: str | None = None
    cases: Annotated[int, Field(ge=1)]


class Worst(_Strict):
    """The largest errors of the line's cases, rounded up to two digits; `over_bound` in units of the bound."""

    max_abs: Number
    max_ulp: int
    over_bound: Number


class Line(_Strict):
    """One line of the ledger. Lines of one run and one cell (row, dimension, backend) belong together: a record."""

    prev: Sha256
    time: str
    run: str
    verdicts_sha256: Sha256
    commit: str
    harness: str
    row: str
    dimension: Dimension
    backend: Backend
    kernel: str
    device: str
    pins: dict[str, PinPart]
    verdicts: dict[Verdict, Annotated[int, Field(ge=1)]]
    worst: Worst
    families: dict[str, FamilyPart] = Field(description="of the whole record, the same in each of its lines")
    skips: tuple[SkipPart, ...] = ()
    not_passed: dict[str, Verdict] = Field(default={}, description="the first cases that are not PASS")

    def text(self) -> str:
        """The line as the file holds it, without the newline."""
        return self.model_dump_json(exclude_defaults=True)

    def claim(self) -> str:
        """What the line says, without when and in which run it was shown."""
        said = {"prev", "time", "run", "verdicts_sha256", "commit", "harness"}
        return self.model_dump_json(exclude=said)


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
class Record:
    """All lines that one run added for one cell. `first` is the number of the first of them in the file."""

    first: int
    lines: tuple[Line, ...]

    @property
    def cell(self) -> tuple[str, Dimension, str]:
        line = self.lines[0]
        return (line.row, line.dimension, line.backend)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that took part, sorted; empty when every case was skipped."""
        return tuple(sorted({line.device for line in self.lines if line.device}))

    @property
    def families(self) -> dict[str, FamilyPart]:
        return self.lines[0].families

    @property
    def pins(self) -> dict[str, PinPart]:
        return {name: part for line in self.lines for name, part in line.pins.items()}

    @property
    def verdicts(self) -> dict[Verdict, int]:
        total: dict[Verdict, int] = {}
        for line in self.lines:
            for verdict, count in line.verdicts.items():
                total[verdict] = total.get(verdict, 0) + count
        return total

    @property
    def skips(self) -> tuple[SkipPart, ...]:
        return tuple(skip for line in self.lines for skip in line.skips)

    def says(self) -> tuple[str, ...]:
        """The claims of its lines: equal for two records that show the same."""
        return tuple(line.claim() for line in self.lines)


@dataclass(frozen=True)
class Ledger:
    lines: tuple[Line, ...]
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
    lines = []
    digests = [head.before.sha256 if head.before else GENESIS]
    for number, text in enumerate(texts, start=1):
        line = _validated(Line, text.encode(), path, f"line {number}")
        if line.prev != digests[-1]:
            raise _broken(path, number, line.prev, digests, [sha256(other) for other in texts])
        lines.append(line)
        digests.append(sha256(text))
    _check_head(path, head, len(lines), digests[-1])
    records = _records(path, lines)
    return Ledger(tuple(lines), records, head)


def append(drafts: Iterable[Line], ledger: Ledger, root: Path = REPOSITORY) -> Ledger:
    """Add lines, each chained to the one before it (their own `prev` is ignored). Raises BadInput when it grows too long."""
    texts = [line.text() for line in ledger.lines]
    _write(texts, drafts, ledger.head.before, root)
    return read_ledger(root)


def compact(ledger: Ledger, root: Path = REPOSITORY) -> Ledger:
    """Begin the file anew with the newest record of each cell and device, chained to the old file's last line."""
    live = {record.first for devices in ledger.newest().values() for record in devices.values()}
    kept = [line for record in ledger.records if record.first in live for line in record.lines]
    before = Compacted(lines=ledger.head.lines, sha256=ledger.head.sha256)
    _write([], kept, before, root)
    return read_ledger(root)


def _write(texts: list[str], drafts: Iterable[Line], before: Compacted | None, root: Path) -> None:
    start = before.sha256 if before else GENESIS
    for draft in drafts:
        prev = sha256(texts[-1]) if texts else start
        texts.append(draft.model_copy(update={"prev": prev}).text())
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


def _validated(model: type[_Model], data: bytes, path: Path, where: str) -> _Model:
    try:
        json.loads(data)
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        got, wanted = ("nothing" if first["type"] == "missing" else first["input"]), first["msg"]
    except ValueError as error:
        field, got, wanted = "", str(error), "JSON"
    raise BadInput(
        file=path, field=", ".join(filter(None, (where, field))) or "(whole)", got=got, wanted=wanted
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


def _records(path: Path, lines: Sequence[Line]) -> tuple[Record, ...]:
    found = []
    first = 1
    for _, members in groupby(lines, key=lambda line: (line.run, line.row, line.dimension, line.backend)):
        record = Record(first, tuple(members))
        required = sum(part.cases for part in record.families.values())
        ran = sum(record.verdicts.values())
        if any(line.families != record.families for line in record.lines) or ran != required:
            raise BadInput(
                file=path,
                field=f"line {first}, verdicts",
                got=f"{ran} verdicts",
                wanted=f"one for each of the {required} required cases that its families name",
            )
        found.append(record)
        first += len(record.lines)
    return tuple(found)
