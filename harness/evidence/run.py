"""A run: the folder `results/runs/<id>/` that one session of cases fills, a line a verdict, and reading it back.

    manifest.json      id, command, commit, uncommitted files, times, harness version; at the end the digest of the verdicts
    environment.json   machine and process (harness.evidence.machine)
    pins.json          the pins as they stood
    verdicts.jsonl     one `Evidence` a line, in the order in which they came

A line is written in one call and goes to the kernel at once: a process that is killed loses at most the line that it
was writing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness import __version__
from harness.errors import BadInput, Unavailable, UsageProblem
from harness.evidence import git
from harness.evidence.machine import run_environment
from harness.evidence.record import Evidence
from harness.evidence.required import load_required
from harness.paths import REPOSITORY
from harness.report.output import write_text
from harness.report.strict_json import dumps
from harness.verdicts import Side, Verdict

RUNS = REPOSITORY / "results" / "runs"
MANIFEST, ENVIRONMENT, PINS, VERDICTS = "manifest.json", "environment.json", "pins.json", "verdicts.jsonl"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Code(_Strict):
    """The code at one moment: the commit (None outside a repository) and the files that differ from it."""

    commit: str | None
    uncommitted: tuple[str, ...]


class Resumption(_Strict):
    time: str
    code: Code
    cut_bytes: int = Field(description="length of the unfinished last line that was removed")
    lines: int | None = Field(default=None, description="whole lines that were taken over")
    sha256: str | None = Field(default=None, description="their digest; it shows no edit made before that")


class Source(_Strict):
    """A run that was merged into this one."""

    id: str
    shard: str | None
    verdicts_sha256: str


class Closed(_Strict):
    """What the verdicts were when the run ended: a file that differs from it was edited afterwards."""

    time: str
    lines: int
    sha256: str


class Manifest(_Strict):
    schema_: Literal["harness-run/1"] = Field(default="harness-run/1", alias="schema")
    id: str
    command: tuple[str, ...]
    started: str
    harness: str
    code: Code
    shard: str | None = Field(default=None, description="I/N, for one of N runs that are merged later")
    resumed: tuple[Resumption, ...] = ()
    merged_from: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()
    closed: Closed | None = Field(
        default=None, description="missing while the run lasts, or when it was killed"
    )

    @property
    def uncommitted(self) -> tuple[str, ...]:
        """Files that differed from the commit at the start or at any resumption."""
        files = {*self.code.uncommitted, *(name for entry in self.resumed for name in entry.code.uncommitted)}
        return tuple(sorted(files))

    @property
    def taken_over(self) -> tuple[str, ...]:
        """For each resumption, a line that says what it took over as it was, without anything to hold it against."""
        return tuple(
            f"resumed {entry.time}: {'?' if entry.lines is None else entry.lines} verdicts taken over as they "
            f"were, sha256 {entry.sha256 or 'not noted'}"
            for entry in self.resumed
        )

    def refuse_unclosed(self, what: str) -> None:
        """Raise UsageProblem for a run that has not ended: nothing shows what its verdicts were."""
        if self.closed is None:
            raise UsageProblem(
                f"{what}: run {self.id} has not ended, so that an edit of its verdicts would not show; "
                f"go on to its end first: pytest --resume {self.id}"
            )

    @property
    def commits(self) -> tuple[str | None, ...]:
        """The commit at the start and at every resumption. What ran before a resumption and has other code since is
        told by its code hash."""
        return (self.code.commit, *(entry.code.commit for entry in self.resumed))


@dataclass(frozen=True)
class Run:
    """A run as it was read. `evidence` by case ID; `notes` say what was noticed; `digest` is the sha256 of its verdicts."""

    path: Path
    manifest: Manifest
    environment: Mapping[str, Any]
    evidence: Mapping[str, Evidence]
    lines: int
    digest: str
    truncated: bool
    notes: tuple[str, ...]

    def done_cases(self, current: Mapping[str, str] | None = None) -> set[str]:
        """Cases that need not run again: they have a verdict about the subject, and their code is still the same.

        `current` gives the code hash of each case now; without it, that of the required list's cases is computed.
        """
        if current is None:
            required = load_required()
            current = {case: required.code_hash(case) for case in self.evidence if case in required.by_case}
        return {
            case
            for case, entry in self.evidence.items()
            if entry.verdict is not Verdict.NOT_RUN
            and entry.side is Side.SUBJECT
            and entry.code_hash
            and entry.code_hash == current.get(case)
        }


class RunWriter:
    """Appends to one run. Not for several processes at once: with pytest-xdist the controller writes."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self._manifest = manifest
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._verdicts = os.open(path / VERDICTS, flags, 0o644)

    @classmethod
    def create(
        cls,
        root: Path = RUNS,
        *,
        command: Sequence[str] = (),
        pins: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        shard: str | None = None,
        code: Code | None = None,
        merged_from: Sequence[Source] = (),
        notes: Sequence[str] = (),
    ) -> Self:
        """A new folder below `root`. Without `pins`, those of the tree are written; `code` is asked of git."""
        moment = datetime.now(UTC)
        started = moment.strftime(SECONDS)
        # The microseconds keep IDs in the order of time: `latest` must not be a matter of luck within a second.
        run_id = f"{moment:%Y%m%dT%H%M%SZ}-{moment.microsecond:05x}{secrets.token_hex(1)}"
        manifest = Manifest(
            id=run_id,
            command=tuple(command),
            started=started,
            harness=__version__,
            code=code or current_code(),
            shard=shard,
            merged_from=tuple(merged_from),
            notes=tuple(notes),
        )
        path = root / run_id
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise Unavailable(f"cannot make {path}: {error.strerror}") from None
        write_text("the environment", str(path / ENVIRONMENT), dumps(environment or run_environment()))
        write_text("the pins", str(path / PINS), dumps(current_pins() if pins is None else pins))
        _write_manifest(path, manifest)
        return cls(path, manifest)

    @classmethod
    def resume(cls, path: Path, *, code: Code | None = None) -> Self:
        """Go on with a run that was killed or closed: an unfinished last line is cut off, and that is noted."""
        run = read_run(path)
        verdicts = path / VERDICTS
        size = verdicts.stat().st_size if verdicts.exists() else 0
        cut = size - _whole_lines(verdicts.read_bytes()) if size else 0
        if cut:
            os.truncate(verdicts, size - cut)
        entry = Resumption(
            time=now(), code=code or current_code(), cut_bytes=cut, lines=run.lines, sha256=run.digest
        )
        manifest = run.manifest.model_copy(update={"resumed": (*run.manifest.resumed, entry), "closed": None})
        _write_manifest(path, manifest)
        return cls(path, manifest)

    @property
    def id(self) -> str:
        return self._manifest.id

    def append(self, evidence: Evidence) -> None:
        """Write one line. It survives the end of this process from here on."""
        data = f"{evidence.line()}\n".encode()
        while data:
            data = data[os.write(self._verdicts, data) :]

    def close(self) -> None:
        """Put the verdicts on the disk and their digest into the manifest. A second call does nothing."""
        if self._verdicts < 0:
            return
        os.fsync(self._verdicts)
        os.close(self._verdicts)
        self._verdicts = -1
        data = (self.path / VERDICTS).read_bytes()
        closed = Closed(time=now(), lines=data.count(b"\n"), sha256=hashlib.sha256(data).hexdigest())
        _write_manifest(self.path, self._manifest.model_copy(update={"closed": closed}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_run(path: Path) -> Run:
    """Read a run back. An unfinished last line is left out and noted; anything else that is broken is refused.

    Raises BadInput naming file and line.
    """
    manifest = _read_manifest(path)
    environment = read_json(path / ENVIRONMENT)
    verdicts = path / VERDICTS
    try:
        data = verdicts.read_bytes()
    except OSError as error:
        raise BadInput(file=verdicts, field="(file)", got=error.strerror, wanted="a readable file") from None
    whole = data[: _whole_lines(data)]
    digest = hashlib.sha256(whole).hexdigest()
    if manifest.closed is not None and (len(whole) != len(data) or digest != manifest.closed.sha256):
        raise BadInput(
            file=verdicts,
            field="sha256",
            got=hashlib.sha256(data).hexdigest(),
            wanted=f"{manifest.closed.sha256}, as when the run ended: the file was changed afterwards",
        )
    evidence: dict[str, Evidence] = {}
    notes = list(manifest.notes)
    lines = whole.split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        entry = _read_line(verdicts, number, line)
        if entry.case in evidence:
            before = evidence.pop(entry.case)
            notes.append(
                f"{entry.case}: twice, {before.verdict} and then {entry.verdict}; the later one counts"
            )
        evidence[entry.case] = entry
    truncated = len(whole) != len(data)
    if truncated:
        notes.append(f"line {len(lines) + 1} is unfinished ({len(data) - len(whole)} bytes): left out")
    return Run(path, manifest, environment, evidence, len(lines), digest, truncated, tuple(notes))


SECONDS = "%Y-%m-%dT%H:%M:%SZ"


def find_run(name: str, root: Path = RUNS) -> Path:
    """The folder of a run by path, ID, unique beginning of an ID, or `latest`. Raises UsageProblem."""
    if Path(name).is_dir() and (Path(name) / MANIFEST).is_file():
        return Path(name)
    known = run_folders(root)
    found = known[-1:] if name == "latest" else [path for path in known if path.name.startswith(name)]
    exact = [path for path in found if path.name == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise UsageProblem(f"several runs begin with {name}: {', '.join(path.name for path in found)}")
    where = f"{root}: {', '.join(path.name for path in known[-3:]) or 'it holds none'}"
    raise UsageProblem(f"no run {name} in {where}")


def run_folders(root: Path = RUNS) -> list[Path]:
    """The folders of all runs, oldest first."""
    return sorted(path.parent for path in root.glob(f"*/{MANIFEST}"))


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).strftime(SECONDS)


def current_code(root: Path = REPOSITORY) -> Code:
    """Commit and uncommitted files; no commit where git cannot say (an unpacked archive)."""
    try:
        return Code(commit=git.commit(root), uncommitted=git.uncommitted(root))
    except Unavailable:
        return Code(commit=None, uncommitted=())


def current_pins() -> dict[str, Any]:
    """Every pin of the tree: package, version, wheels, worker."""
    from oracles.pins import load_pins

    return {
        name: {
            "package": pin.package,
            "version": pin.version,
            "wheels": pin.wheels,
            "worker_sha256": pin.worker_sha256(),
        }
        for name, pin in load_pins().items()
    }


def _whole_lines(data: bytes) -> int:
    """Length of the part of `data` that ends with its last newline."""
    return data.rfind(b"\n") + 1


def _write_manifest(path: Path, manifest: Manifest) -> None:
    write_text("the manifest", str(path / MANIFEST), dumps(manifest.model_dump(mode="json", by_alias=True)))


def _read_manifest(path: Path) -> Manifest:
    content = read_json(path / MANIFEST)
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole)"
        raise BadInput(file=path / MANIFEST, field=field, got=first["input"], wanted=first["msg"]) from None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of one of a run's files. Raises BadInput."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(file=path, field="(file)", got=error.strerror, wanted="a readable file") from None
    except ValueError as error:
        raise BadInput(file=path, field="(file)", got=error, wanted="JSON") from None
    if not isinstance(content, dict):
        raise BadInput(file=path, field="(top)", got=type(content).__name__, wanted="an object")
    return content


def _read_line(path: Path, number: int, line: bytes) -> Evidence:
    try:
        return Evidence.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        where = f"line {number}{f', {field}' if field else ''}"
        got = first["input"] if field else line.decode("utf-8", "replace")
        raise BadInput(
            file=path, field=where, got=got, wanted=first["msg"].removeprefix("Value error, ")
        ) from None
