"""A perf recipe: what is timed, by whom, how often, and what must come of it. Read strictly; the fields are docs/bench.md's."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.errors import UsageProblem
from harness.paths import RECIPES
from harness.rows.model import Backend, Encoding
from harness.rows.strict_yaml import read_mapping, validated

FOLDER = RECIPES / "perf"
DEFAULT = FOLDER / "ggml-decode-cpu.yaml"

Op = Literal["dequantize", "quantize", "quantize_row", "quantize_activation", "vec_dot"]
Size = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Arm(_Strict):
    """One of those that are timed. `memory`: the result is written into memory that is given, or into new memory."""

    name: str = Field(min_length=1)
    provider: str = Field(min_length=1, description="reference (our numpy), or an oracle's pin")
    memory: Literal["given", "new"] = "given"
    ops: tuple[Op, ...] = Field(default=(), description="the ops it takes part in; empty: all")
    largest_elements: int | None = Field(default=None, ge=1, description="larger shapes are left out")


class Series(_Strict):
    """Ops x encodings x shapes."""

    ops: tuple[Op, ...] = Field(min_length=1)
    encodings: tuple[Encoding, ...] = Field(min_length=1)
    shapes: tuple[tuple[Size, Size], ...] = Field(min_length=1)


class Floor(_Strict):
    """How many times as fast `arm` has to be as `against`, at least."""

    arm: str
    against: str
    at_least: float = Field(gt=0)
    encodings: tuple[Encoding, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Work:
    """One thing that every arm does: an op on an encoding. `shape` is [rows, columns] of the weights."""

    op: Op
    encoding: str
    shape: tuple[int, int]

    @property
    def elements(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def size(self) -> str:
        return f"{self.shape[0]}x{self.shape[1]}"


class Recipe(_Strict):
    """The whole file."""

    schema_: Literal["harness-bench-recipe/1"] = Field(alias="schema")
    title: str = Field(min_length=1)
    backend: Backend
    threads: Literal[1] = Field(description="every arm runs on one thread")
    seed: int = Field(ge=0)
    warmup: int = Field(ge=1, description="runs before each measured one, discarded")
    rounds: int = Field(ge=3, description="times that every arm gets its turn")
    seconds_per_arm: float = Field(
        gt=0, description="an arm that has taken longer gets no further turn, after three"
    )
    noise_limit: Fraction = Field(
        description="an oracle that differs more than this from itself says nothing"
    )
    family: str | None = Field(
        default=None, description="evidence is kept under this name; none: no evidence"
    )
    arms: tuple[Arm, ...] = Field(min_length=2)
    oracle: str = Field(description="the arm that all others are held against")
    claims: str = Field(description="the arm that is ours, whose figures enter evidence")
    series: tuple[Series, ...] = Field(min_length=1)
    floors: tuple[Floor, ...] = ()

    @model_validator(mode="after")
    def _names_are_arms(self) -> Self:
        arms = {arm.name: arm for arm in self.arms}
        if len(arms) != len(self.arms):
            raise ValueError("two arms have one name")
        named = {
            self.oracle,
            self.claims,
            *(name for floor in self.floors for name in (floor.arm, floor.against)),
        }
        if unknown := sorted(named - set(arms)):
            raise ValueError(f"an arm called {unknown[0]}")
        if arms[self.claims].provider != "reference" or arms[self.oracle].provider == "reference":
            raise ValueError("claims names an arm of ours and oracle one that is not")
        if self.family is not None and len({op for series in self.series for op in series.ops}) != 1:
            raise ValueError("one op where there is a family")
        timed = {encoding for series in self.series for encoding in series.encodings}
        if lost := sorted({name for floor in self.floors for name in floor.encodings} - timed):
            raise ValueError(f"floors for encodings that a series times; {lost[0]} is timed by none")
        return self

    def works(self) -> Iterator[Work]:
        """Everything that is timed, in the order of the file. A shape that the encoding's blocks do not fit is left out.

        So is a type of GGUF files whose unit is gone: the list of required cases shows it, and so does
        `harness drift --retire`. Raises UsageProblem for a name that is no encoding's.
        """
        from harness.containers.ggml_types import ggml_types
        from kernels.units import load_units, unit

        retired = {kind.encoding for kind in ggml_types().values()} - set(load_units())
        for series in self.series:
            for encoding in series.encodings:
                if encoding in retired:
                    continue
                for op in series.ops:
                    for shape in series.shapes:
                        if shape[1] % unit(encoding).block_elems == 0:
                            yield Work(op, encoding, shape)

    def case_id(self, work: Work) -> str:
        """The name of what is timed: that of its case where there is a family, else made the same way."""
        name = self.family or f"bench.{work.op}"
        return f"{name}/{work.encoding}/{work.size}/{self.backend}"

    def chosen(self, pattern: str | None) -> list[Work]:
        """The works whose case ID fits `pattern`, or all. Raises UsageProblem when that is none."""
        found = [
            work
            for work in self.works()
            if pattern is None or fnmatch.fnmatchcase(self.case_id(work), pattern)
        ]
        if not found:
            raise UsageProblem(f"--cases {pattern}: no case of the recipe fits it")
        return found


def load_recipe(path: Path = DEFAULT) -> Recipe:
    """Raises BadInput naming the file and the field that does not fit."""
    return validated(Recipe, read_mapping(path), file=path)
