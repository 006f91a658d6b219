"""The JSON of `harness audit`: a contract (names stay), published as docs/schemas/audit.schema.json."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.matrix.states import State
from harness.rows.model import Dimension


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class AuditCounts(_Strict):
    files: int = Field(description="test files that were collected")
    tests: int = Field(description="test functions")
    cases: int
    families: int
    skips: dict[str, int] = Field(
        description="cases by the kind of their skips; a test without cases counts as one"
    )
    debts: int = Field(description="of these, those that no other machine runs")
    bounds_compared: int = Field(
        description="pairs of a family and an upstream test whose bounds are numbers of one kind"
    )
    bounds_not_comparable: tuple[str, ...] = Field(description="the pairs that are not, in words")
    findings: dict[str, int] = Field(description="by code")


class AuditSkip(_Strict):
    """One reason for which cases of one test, in the debt of one row, do not run."""

    nodeid: str = Field(description="the test function; its cases are counted")
    row: str
    kind: str = Field(description="a kind of docs/skips.md, or expected_failure")
    reason: str
    owner: str
    expires: str | None
    upstream: tuple[str, ...] = Field(description="the upstream tests that its cases descend from")
    when: str = Field(description="always, a named condition, or 'in the test', which decides it by itself")
    debt: bool = Field(description="false: another machine runs them")
    cases: int = Field(description="how many cases it is about, at most; 1 for a test without cases")
    of: int = Field(description="how many cases the row has")
    file: str
    line: int


class AuditFinding(_Strict):
    code: str
    file: str
    line: int
    message: str


class AuditRow(_Strict):
    """One row's share: what a later audit is held against."""

    id: str
    cases: int
    debts: int = Field(description="cases that are skipped wherever the suite runs, at most")
    elsewhere: int = Field(description="cases that wait for a device or a platform")
    dimensions: dict[Dimension, State]


class Audit(_Strict):
    schema_: Literal["harness-audit/1"] = Field(default="harness-audit/1", alias="schema")
    counts: AuditCounts
    skips: tuple[AuditSkip, ...]
    findings: tuple[AuditFinding, ...]
    rows: tuple[AuditRow, ...]
