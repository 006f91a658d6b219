"""One line of evidence: the verdict of one case, by whom, on what, judged by which pins, and how far apart."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema, model_validator

from harness.report.strict_json import strict
from harness.rows.model import Dimension
from harness.verdicts import PASSING, SPEED, Side, Verdict

SCHEMA = "harness-evidence/1"

Number = Annotated[
    float | Literal["NaN", "Infinity", "-Infinity"],
    PlainSerializer(strict),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}),
]


_MEASURED = frozenset({Verdict.FASTER, Verdict.SLOWER, Verdict.SAME})


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Judge(_Strict):
    """A pin that judged. `live` is False when its answer came from the memo: then nothing is promoted from it."""

    pin: str
    package: str
    version: str
    wheel_sha256: str
    worker_sha256: str
    live: bool


class Worst(_Strict):
    """The worst element: flat index, both values, the bound there, and the error in units of the bound."""

    index: int
    row: int
    block: int
    lane: int
    subject: Number
    oracle: Number
    bound: Number


class Skip(_Strict):
    """Why a case did not run. `kind` is one of a closed set; the row is the one whose debt it is."""

    row: str
    kind: Literal[
        "hardware", "platform", "upstream_limit", "missing_kernel", "missing_oracle", "slow", "quarantined"
    ]
    reason: str
    owner: str
    expires: str | None = None


class Figures(_Strict):
    """What a timed series measured: medians over its rounds in microseconds, and the ratio of ours to the oracle's.

    `spread` is the interquartile range over the median, `interval` the 95 % bootstrap interval of the ratio, `noise`
    how far from one the ratio of the oracle to itself was, measured in the same series. `oracle` names the arm.
    """

    median_us: float = Field(gt=0)
    spread: float = Field(ge=0)
    oracle: str
    oracle_median_us: float = Field(gt=0)
    oracle_spread: float = Field(ge=0)
    ratio: float = Field(gt=0)
    interval: tuple[float, float]
    noise: float = Field(ge=0)
    gbps: float = Field(ge=0, description="bytes read and written, in 1e9 a second")
    bound_ratio: float = Field(ge=0, description="gbps over the measured bandwidth of a copy")
    rounds: int = Field(ge=1)
    processor: str
    threads: int = Field(ge=1)


class Evidence(_Strict):
    """The record of one case in one run. Which fields must be there depends on the verdict (validated)."""

    schema_: Literal["harness-evidence/1"] = Field(default="harness-evidence/1", alias="schema")
    case: str
    family: str
    op: str
    encoding: str | None
    backend: str
    dimension: Dimension
    rows: tuple[str, ...]
    verdict: Verdict
    side: Side = Side.SUBJECT
    message: str = ""
    seed: int
    subject: str = ""
    kernel: str = Field(default="", description="the kernel that ran, not the one asked for")
    device: str = Field(
        default="", description="'cpu', an interpreter's or shim's name, or the device's name"
    )
    judges: tuple[Judge, ...] = ()
    bound: str = ""
    elements: int = 0
    diverged: int = 0
    max_abs: Number = 0.0
    max_ulp: int = 0
    error_over_bound: Number = 0.0
    worst: Worst | None = None
    upstream_bound_holds: bool | None = None
    figures: Figures | None = Field(default=None, description="of a timed series that has figures")
    skip: Skip | None = None
    code_hash: str = ""
    seconds: float = 0.0

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def line(self) -> str:
        """The record as one line of strict JSON, without the newline."""
        return self.model_dump_json(by_alias=True)

    @model_validator(mode="after")
    def _fields_fit_the_verdict(self) -> Self:
        if self.verdict is Verdict.PASS and not (
            self.judges and self.elements and self.kernel and self.device
        ):
            raise ValueError(
                "PASS needs judges, a kernel, a device and at least one element that was compared"
            )
        if self.verdict in _MEASURED and not (
            self.figures
            and self.judges
            and self.elements
            and self.kernel
            and self.device
            and not self.diverged
        ):
            raise ValueError(
                f"{self.verdict} needs figures, a kernel, a device, and judges before whom the result was right"
            )
        if (self.verdict in SPEED and self.dimension is not Dimension.PERF) or (
            self.verdict is Verdict.PASS and self.dimension is Dimension.PERF
        ):
            raise ValueError("a verdict of speed belongs to Perf, and Perf ends in one")
        if self.verdict is Verdict.PASS and (self.diverged or not float(self.error_over_bound) <= 1):
            raise ValueError("PASS means that no element is outside its bound")
        if (self.verdict is Verdict.SKIP) != (self.skip is not None):
            raise ValueError("SKIP, and only SKIP, carries a skip with row, kind and reason")
        if self.verdict is Verdict.SKIP and (self.judges or self.diverged or self.elements):
            raise ValueError("a case that was judged is not a SKIP")
        # A container's or a config's fields have no worst element: the message names those that differ.
        of_elements = self.dimension is not Dimension.RECOGNIZE
        if (
            self.verdict in (Verdict.FAIL_VALUE, Verdict.FAIL_NONFINITE)
            and of_elements
            and self.worst is None
        ):
            raise ValueError(f"{self.verdict} needs the worst element")
        if self.verdict not in PASSING | {Verdict.SKIP, Verdict.XFAIL} and not self.message:
            raise ValueError(f"{self.verdict} needs a message")
        return self
