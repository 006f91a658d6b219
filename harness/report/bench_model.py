"""The JSON of `harness bench`: a contract (names stay), published as docs/schemas/bench.schema.json."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.evidence.record import Number
from harness.verdicts import Verdict


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Device(_Strict):
    backend: str
    name: str = Field(description="of the processor")
    cores: int = Field(description="that this process may use")
    threads: int = Field(description="that every arm ran on")


class Ceilings(_Strict):
    copy_gbps: float = Field(description="bytes read and written by a copy in memory, in 1e9 a second")
    counter_ghz: float | None = Field(description="of the cycle counter; null where it is unknown")


class ArmReport(_Strict):
    """One arm in one case. Figures are null where there is none."""

    case: str
    impl: str = Field(description="the arm's name in the recipe")
    kernel: str = Field(description="what ran")
    verified: Verdict = Field(description="of its result, before anything was timed")
    median_us: float | None
    spread: float | None = Field(description="interquartile range over the median")
    gbps: float | None = Field(description="bytes read and written, in 1e9 a second")
    tflops: float | None = Field(description="null for what is no product")
    bound_ratio: float | None = Field(description="gbps over ceilings.copy_gbps; above 1 in a cache")
    verdict: Verdict = Field(description="against the oracle's time; SAME for the oracle itself")
    ratio: Number | None = Field(description="median over the oracle's")
    interval: tuple[Number, Number] | None = Field(description="95 % of the ratio")
    noise: Number | None = Field(description="how far the oracle's ratio to itself may be from one")
    cycles_per_32: float | None = Field(description="cycles for 32 values; null where the counter is unknown")
    rounds: int
    reason: str


class FloorReport(_Strict):
    case: str
    arm: str
    against: str
    at_least: float
    speedup: float | None = Field(description="how many times as fast; null where a figure is missing")
    met: bool | None = Field(description="null where nothing is known")
    reason: str


class LoadReport(_Strict):
    case: str
    before: float | None
    after: float | None


class BenchReport(_Strict):
    schema_: Literal["harness-bench/1"] = Field(default="harness-bench/1", alias="schema")
    recipe: str
    title: str
    oracle: str = Field(description="the arm that all others are held against")
    pins: dict[str, str] = Field(description="pinned provider -> package and version")
    device: Device
    ceilings: Ceilings
    lock: str = Field(description="the lock file that was held")
    arms: tuple[ArmReport, ...]
    floors: tuple[FloorReport, ...]
    load: tuple[LoadReport, ...]
    left_out: dict[str, str] = Field(description="case and arm -> why it was not timed")
    run: str | None = Field(description="ID of the run that holds the evidence")
    exit_code: int
