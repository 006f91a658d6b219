"""The lines of the ledger (`harness.evidence.ledger`), and the records that they form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from harness.evidence.record import Number
from harness.rows.model import Backend, Dimension
from harness.verdicts import Verdict

OWN_PACKAGE = "quant-oracle-harness"
"""Judges of our own (a formula, answers derived by hand): their sources are imported by the cases, so that the code
hash covers them and no pin has to."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Short = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FamilyPart(_Strict):
    """What the cell required of one family: how many cases, a digest of their IDs, and of their code hashes."""

    cases: Annotated[int, Field(ge=1)]
    ids: Short
    code: Short


class PinPart(_Strict):
    """A pin that judged: sha256 of its package's wheels (one a platform that took part) and of its worker; none of
    either for a judge of our own."""

    package: str
    version: str
    wheels: tuple[str, ...]
    worker: str


class SkipPart(_Strict):
    kind: str
    reason: str
    owner: str
    expires: str | None = None
    cases: Annotated[int, Field(ge=1)]


class Worst(_Strict):
    """The largest errors of the line's cases, rounded up to two digits; `over_bound` in units of the bound."""

    max_abs: Number = 0.0
    max_ulp: int = 0
    over_bound: Number = 0.0


class SpeedPart(_Strict):
    """One case's figures, rounded: ours, the oracle's, and why it is no faster where it is not."""

    median_us: float
    spread: float
    oracle: str
    oracle_median_us: float
    oracle_spread: float
    ratio: float
    noise: float
    processor: str
    threads: int
    reason: str = ""


class RunLine(_Strict):
    """The line before the lines of a run. `run` is the sha256 of the run's verdicts, by which they name it."""

    prev: Sha256
    run: Sha256
    id: str
    time: str
    commit: str
    harness: str
    pins: dict[str, PinPart]

    def text(self) -> str:
        """The line as the file holds it, without the newline."""
        return self.model_dump_json(exclude_defaults=True)


class Line(_Strict):
    """What a run showed in one cell, by one kernel on one device, before one set of judges.

    All lines of one run and one cell (row, dimension, backend) belong together: a record. `code` and `ids` of
    `families` are those of the whole record, the same in each of its lines.
    """

    prev: Sha256
    run: Sha256
    row: str
    dimension: Dimension
    backend: Backend
    kernel: str
    device: str
    pins: tuple[str, ...]
    verdicts: dict[Verdict, Annotated[int, Field(ge=1)]]
    families: dict[str, FamilyPart]
    worst: Worst = Worst()
    skips: tuple[SkipPart, ...] = ()
    not_passed: dict[str, Verdict] = Field(default={}, description="the first cases that are not PASS")
    speed: dict[str, SpeedPart] = Field(default={}, description="figures by case, under Perf")

    def text(self) -> str:
        """The line as the file holds it, without the newline."""
        return self.model_dump_json(exclude_defaults=True)

    def claim(self) -> str:
        """What the line says, without which run showed it. Of a timed series the verdict and the processor: no two
        series measure the same."""
        said = self.model_dump(mode="json", exclude={"prev", "run", "speed"})
        said["processors"] = {case: part.processor for case, part in self.speed.items()}
        return json.dumps(said)


@dataclass(frozen=True)
class Record:
    """All lines that one run added for one cell. `first` is the number of the first of them in the file."""

    first: int
    source: RunLine
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
        return {name: self.source.pins[name] for line in self.lines for name in line.pins}

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
        """The claims of its lines and the pins behind them: equal for two records that show the same."""
        pins = sorted(
            f"{name}: {part.model_dump_json()}"
            for name, part in self.pins.items()
            if part.package != OWN_PACKAGE
        )
        return (*(line.claim() for line in self.lines), *pins)
