"""The JSON of `harness compare`: a contract (names stay), published as docs/schemas/compare.schema.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from harness.report.strict_json import strict
from harness.verdicts import Side, Verdict

Number = Annotated[
    float,
    PlainSerializer(strict),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}),
]
"""A float as JSON can hold it: NaN and the infinities are strings."""


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CheckpointInfo(Model):
    path: str
    sha256: str
    container: str
    architecture: str | None
    tensors: int
    encodings: dict[str, int] = Field(description="tensors of each encoding")
    bytes: int


class SubjectInfo(Model):
    name: str
    version: str


class OracleInfo(Model):
    name: str
    version: str
    pin: dict[str, Any] = Field(
        description="package, version, wheel sha256, engine, worker sha256 of the first judge"
    )
    second_opinions: list[dict[str, Any]] = Field(
        description="the pins that have to agree with the first judge"
    )


class Divergence(Model):
    """The worst element of one tensor that differs, or the field in which two readings of a container differ."""

    level: str
    name: str = Field(description="tensor, or field of the container")
    row: int | None = None
    block: int | None = Field(default=None, description="block within the row")
    lane: int | None = Field(default=None, description="element within the block")
    column: int | None = None
    subject: Number | str | None
    oracle: Number | str | None
    subject_bits: str | None = None
    oracle_bits: str | None = None
    ulp: int | None = None
    bound: Number
    smallest_passing_bound: Number
    diagnosis: str | None = None
    reproducer: str | None = None


class TensorResult(Model):
    """One tensor that is not a plain PASS."""

    name: str
    encoding: str
    shape: list[int]
    verdict: Verdict
    side: Side
    elements: int
    diverged: int
    max_abs: Number
    max_ulp: int
    message: str
    stderr: str
    divergence: Divergence | None


class EncodingResult(Model):
    encoding: str
    verdict: Verdict
    tensors: int
    passed: int
    compared: int = Field(description="tensors whose values were compared; the others failed before that")
    elements: int
    bit_exact: bool
    max_abs: Number
    max_ulp: int
    judges: list[str] = Field(
        description="the pins that decoded it; with one alone there was no second opinion"
    )
    seconds: dict[str, float] = Field(description="time in the decode itself, by provider")


class RecognizeLevel(Model):
    verdict: Verdict
    checked: int
    diverged: int
    messages: list[str]


class TensorsLevel(Model):
    verdict: Verdict
    checked: int
    diverged: int
    bit_exact: bool
    max_abs: Number
    max_ulp: int
    elements: int
    repeated: int = Field(description="tensors that the subject decoded twice, to see whether the bits stay")
    by_encoding: list[EncodingResult]
    not_passed: list[TensorResult]


class Levels(Model):
    recognize: RecognizeLevel | None = None
    tensors: TensorsLevel | None = None


class RowResult(Model):
    id: str
    dimension: Literal["Recognize", "Materialize"]
    verdict: Verdict
    tensors: int


class KernelEngaged(Model):
    op: str
    encoding: str
    backend: str
    kernel: str
    calls: int


class CompareReport(Model):
    """One run of `harness compare`."""

    schema_: Literal["harness-compare/1"] = Field(default="harness-compare/1", alias="schema")
    verdict: Verdict
    exit_code: int
    checkpoint: CheckpointInfo
    subject: SubjectInfo
    oracle: OracleInfo
    level: str
    seed: int
    levels: Levels
    first_divergence: Divergence | None
    rows: list[RowResult]
    environment: dict[str, Any]
    kernels_engaged: list[KernelEngaged]
    notes: list[str] = Field(description="what could not be done beside the comparison")
    timings: dict[str, Any]
    peak_rss: int = Field(description="bytes, of the harness process alone")

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def as_json(self) -> dict[str, Any]:
        """The report as strict JSON data."""
        data: dict[str, Any] = strict(self.model_dump(mode="json", by_alias=True))
        return data
