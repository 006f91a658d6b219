"""What `harness upstream` reports: the fate of each upstream test, and what another release of an engine changes."""

from __future__ import annotations

from collections import Counter
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

State = Literal["ported", "skipped", "not_applicable", "unaccounted"]
STATES: tuple[State, ...] = ("ported", "skipped", "not_applicable", "unaccounted")


class _Report(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OneFate(_Report):
    """One upstream test and what became of it. `cases` is None for a tool without pass or fail."""

    name: str
    cases: int | None
    fate: State
    where: tuple[str, ...] = Field(description="our test files, for a ported one")
    row: str | None = Field(description="the row in whose debt a skipped one stands")
    reason: str | None


class FileFate(_Report):
    """One upstream test file. `retired`: the releases that it is gone from."""

    engine: str
    path: str
    retired: bool
    tests: tuple[OneFate, ...]


class Status(_Report):
    """The fates of the upstream tests. The four counts add up to `total`, or the report is refused."""

    schema_: Literal["harness.upstream/1"] = Field(default="harness.upstream/1", alias="schema")
    total: int
    ported: int
    skipped: int
    not_applicable: int
    unaccounted: int
    engines: dict[str, dict[State, int]] = Field(description="the same counts, engine by engine")
    files: tuple[FileFate, ...]

    @model_validator(mode="after")
    def _sums(self) -> Self:
        """Every test has one fate: the counts are those of the tests that are listed, and add up."""
        listed = Counter(test.fate for file in self.files for test in file.tests)
        counts = {state: int(getattr(self, state)) for state in STATES}
        by_engine = {state: sum(engine[state] for engine in self.engines.values()) for state in STATES}
        if counts != {state: listed[state] for state in STATES} or counts != by_engine:
            raise ValueError(f"counts as the tests listed add up: {dict(listed)}")
        if sum(counts.values()) != self.total:
            raise ValueError(f"a total of {sum(counts.values())}, the sum of the fates")
        return self


class NamedTest(_Report):
    """A test by its file. `cases` is None where its parameters cannot be told from the source."""

    path: str
    test: str
    cases: int | None


class FileChange(_Report):
    """A whole file that came or went, with its tests and the number of cases of each."""

    path: str
    tests: tuple[str, ...]
    cases: list[int | None]
    reason: str | None = Field(default=None, description="the rule by which a new file is about quantization")


class AxisChange(_Report):
    """A parameter, or several that vary together: how many values it had and has, which it gained and lost.

    `was` None: it is new; `now` None: it is gone.
    """

    names: tuple[str, ...]
    was: int | None
    now: int | None
    gained: tuple[str, ...]
    lost: tuple[str, ...]


class BoundChange(_Report):
    """A check, a bound or a named constant: what it said and says. None: it was not there, or is gone."""

    kind: str
    was: str | None
    now: str | None
    via: str | None = Field(description="the helper of the file in which it stands")


class ChangedTest(_Report):
    """A test that varies or bounds otherwise; `(file)` stands for the file's constants."""

    path: str
    test: str
    axes: tuple[AxisChange, ...]
    bounds: tuple[BoundChange, ...]


class Uncompared(_Report):
    """Something that neither the inventory nor the source tells enough about to be compared."""

    path: str
    test: str
    reason: str


class DiffCounts(_Report):
    """How much was compared and how much differs. `same` are tests whose text has not changed at all."""

    files: int
    tests: int
    same: int
    axes: int
    checks: int
    added_files: int
    removed_files: int
    added_tests: int
    removed_tests: int
    reparametrised: int
    rebounded: int
    text_only: int
    not_comparable: int


class Diff(_Report):
    """What a tree has and the inventory (or the tree `against`) has not, and the other way round."""

    schema_: Literal["harness.upstream.diff/1"] = Field(default="harness.upstream.diff/1", alias="schema")
    engine: str
    tree: str
    against: str
    counts: DiffCounts
    added_files: tuple[FileChange, ...]
    removed_files: tuple[FileChange, ...]
    added_tests: tuple[NamedTest, ...]
    removed_tests: tuple[NamedTest, ...]
    changed: tuple[ChangedTest, ...]
    text_only: tuple[NamedTest, ...] = Field(description="only their text differs: no parameter, no bound")
    not_comparable: tuple[Uncompared, ...]
    outside: dict[str, tuple[str, ...]] = Field(
        description="reason -> test files that the inventory leaves out"
    )
    unreadable: dict[str, str] = Field(description="path -> why a test file could not be read")

    @property
    def differs(self) -> bool:
        """Whether anything was added, removed, re-parametrised or re-bounded, or could not be read."""
        return any(
            (
                self.added_files,
                self.removed_files,
                self.added_tests,
                self.removed_tests,
                self.changed,
                self.unreadable,
            )
        )
