"""The JSON of `harness matrix`: a contract (names stay), published as docs/schemas/matrix.schema.json."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.evidence.ledger_lines import SkipPart, SpeedPart, Worst
from harness.matrix.states import State
from harness.rows.model import Dimension
from harness.verdicts import Verdict


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class CellEvidence(_Strict):
    """One line of the ledger that a cell rests on."""

    line: int = Field(description="its number in results/ledger/ledger.jsonl")
    backend: str
    run: str
    commit: str
    time: str
    kernel: str
    device: str
    pins: dict[str, str] = Field(description="judge -> version")
    verdicts: dict[Verdict, int]
    worst: Worst
    skips: tuple[SkipPart, ...]
    not_passed: dict[str, Verdict]
    speed: dict[str, SpeedPart] = Field(description="figures of timed series by case, under Perf")
    outdated: tuple[str, ...] = Field(
        description="why the line no longer speaks about the tree; empty: it does"
    )


class DimensionState(_Strict):
    state: State
    backends: dict[str, State]
    evidence: tuple[CellEvidence, ...]
    why: str = Field(description="why it is n/a, or what keeps it from pass")


class MatrixRow(_Strict):
    id: str
    family: str
    surface: str
    item: str
    alias_of: str | None = Field(description="the row whose state this one shows")
    dimensions: dict[Dimension, DimensionState]


class Matrix(_Strict):
    schema_: Literal["harness-matrix/1"] = Field(default="harness-matrix/1", alias="schema")
    counts: dict[Dimension, dict[State, int]] = Field(description="rows by state; aliases are not counted")
    ledger_lines: int
    ledger_sha256: str
    required_cases: int
    rows: tuple[MatrixRow, ...]
