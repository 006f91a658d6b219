"""The inventory of upstream tests: one YAML file an engine, read into frozen models.

A test states what it varies (`axes`, `sweep`), what it asserts, with which bounds, on which hardware, for which rows, and
its fate with us. The files are facts in our words; the totals in each are checked against its tests when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.errors import UsageProblem
from harness.rows.strict_yaml import read_mapping, validated

DATA = Path(__file__).parent
FILES = {
    "llama.cpp": "llama_cpp.yaml",
    "vllm": "vllm.yaml",
    "mlx": "mlx.yaml",
    "mlx-lm": "mlx_lm.yaml",
    "vllm-gguf-plugin": "gguf_plugin.yaml",
}

Bound = float | str
"""A number, or the name of the test's own variable where the value depends on the case."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Axis(_Strict):
    """One parametrization: `names` vary together over `values`, over a product, or as `words` say."""

    names: tuple[str, ...] = Field(min_length=1)
    count: int | None = Field(default=None, ge=1)
    values: tuple[Any, ...] | None = None
    product_of: dict[str, tuple[Any, ...]] | None = None
    words: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _counted(self) -> Self:
        given = [name for name in ("values", "product_of", "words") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("exactly one of values, product_of and words")
        if self.values is not None and self.count != len(self.values):
            raise ValueError(f"a count of {len(self.values)}, as many as there are values")
        if self.product_of is not None:
            product = math.prod(len(values) for values in self.product_of.values())
            if self.count != product or tuple(self.product_of) != self.names:
                raise ValueError(f"a count of {product} and the names of the product")
        return self


class Check(_Strict):
    """One thing that the test asserts. Bounds left out are the library's defaults for the dtype."""

    kind: Literal[
        "assert_close",
        "allclose",
        "bit_exact",
        "structural",
        "opcheck",
        "logprobs_close",
        "raises",
        "predicate",
    ]
    rtol: Bound | None = None
    atol: Bound | None = None
    count: int | None = None
    exception: str | None = None
    match: str | None = None
    text: str | None = None
    via: str | None = Field(default=None, description="The helper of the file in which it stands.")
    where: dict[str, tuple[str, ...]] = Field(
        default={}, description="What a variable of the bound is set to, as the source has it."
    )

    @model_validator(mode="after")
    def _fields_of_its_kind(self) -> Self:
        wanted = {"bit_exact": "count", "structural": "count", "raises": "exception", "predicate": "text"}
        field = wanted.get(self.kind)
        if field is not None and getattr(self, field) is None:
            raise ValueError(f"{field} for the kind {self.kind}")
        bounded = self.kind in ("assert_close", "allclose")
        if not bounded and (self.rtol is not None or self.atol is not None):
            raise ValueError("rtol and atol only for assert_close and allclose")
        return self


class Fate(_Strict):
    """What became of an upstream test with us."""

    state: Literal["unaccounted", "ported", "skipped", "not_applicable"]
    where: tuple[str, ...] = Field(default=(), description="Our test files or case ids, for ported.")
    row: str | None = Field(default=None, description="The row in whose debt it stands, for skipped.")
    reason: str | None = None

    @model_validator(mode="after")
    def _explained(self) -> Self:
        if self.state == "ported" and not self.where:
            raise ValueError("where, for a ported test")
        if self.state == "skipped" and not (self.row and self.reason):
            raise ValueError("row and reason, for a skipped test")
        if self.state == "not_applicable" and not self.reason:
            raise ValueError("a reason, for a test that does not apply")
        return self


class UpstreamTest(_Strict):
    """One upstream test function. `hardware`, `rows` and `needs_checkpoint` are filled from its file where it has none."""

    name: str
    line: int = Field(ge=1)
    cases: int | None = Field(ge=0, description="Parametrized cases; None for a tool without pass or fail.")
    cases_on: dict[str, int] = Field(
        default={}, description="The count on other hardware or at another commit."
    )
    axes: tuple[Axis, ...] = ()
    sweep: tuple[str, ...] = Field(
        default=(), description="What is varied, where it is no list of parameters."
    )
    asserts: str | None = None
    checks: tuple[Check, ...] = ()
    bound: str | None = None
    hardware: str
    needs_checkpoint: bool
    rows: tuple[str, ...]
    presence: dict[str, Literal["absent", "differs"]] = Field(
        default={}, description="Other releases, where they differ."
    )
    always_skipped: bool = False
    notes: tuple[str, ...] = ()
    digest: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{12}$",
        description="Of its source and of what it refers to in its file: whether another release has changed it at all.",
    )
    fate: Fate

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if not self.rows and self.fate.state != "unaccounted":
            raise ValueError("at least 1 item in rows, for a test whose fate is known")
        return self


class UpstreamFile(_Strict):
    """One upstream test file."""

    path: str
    summary: str
    hardware: str
    needs_checkpoint: bool
    checkpoint: str | None = None
    rows: tuple[str, ...]
    read_at: tuple[str, ...] = ()
    present_in: tuple[str, ...] = ()
    absent_from: tuple[str, ...] = ()
    gone_in: str | None = Field(default=None, description="For what is retired: the release that lacks it.")
    module_skip_when: tuple[str, ...] = ()
    data: str | None = None
    bounds: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    tests: tuple[UpstreamTest, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, data: Any) -> Any:
        """A test without hardware, rows or needs_checkpoint has those of its file."""
        if not isinstance(data, dict) or not isinstance(data.get("tests"), list):
            return data
        shared = {name: data[name] for name in ("hardware", "rows", "needs_checkpoint") if name in data}
        tests = [shared | test if isinstance(test, dict) else test for test in data["tests"]]
        return data | {"tests": tests}


class Source(_Strict):
    """What a file was read from."""

    project: str
    version: str | None = None
    commit: str | None = None
    use: str


class Past(_Strict):
    """A test file that is not in the inventory's release, or not in a later one."""

    path: str
    where: str


class Totals(_Strict):
    files: int
    tests: int
    cases: int


class Inventory(_Strict):
    """The tests of one engine."""

    engine: str
    sources: tuple[Source, ...] = Field(min_length=1)
    totals: Totals
    history: tuple[Past, ...] = ()
    new_in: dict[str, tuple[str, ...]] = {}
    files: tuple[UpstreamFile, ...]
    retired: tuple[UpstreamFile, ...] = Field(
        default=(), description="What the inventory's release no longer has: kept with its fate."
    )

    @model_validator(mode="after")
    def _sums(self) -> Self:
        tests = list(self.tests())
        counted = Totals(
            files=len({file.path for file, _ in tests}),
            tests=len(tests),
            cases=sum(test.cases or 0 for _, test in tests),
        )
        if counted != self.totals:
            raise ValueError(f"totals as its tests add up: {counted}")
        keys = [(file.path, test.name) for file, test in tests]
        if len(set(keys)) != len(keys):
            raise ValueError("every test of a file once")
        return self

    def tests(self) -> Iterator[tuple[UpstreamFile, UpstreamTest]]:
        """Every test with its file, those that are retired after the others."""
        for file in (*self.files, *self.retired):
            for test in file.tests:
                yield file, test


@cache
def load_inventory(engine: str) -> Inventory:
    """The inventory of one engine. `UsageProblem` for an unknown engine, `BadInput` (file, field) for a broken file."""
    if engine not in FILES:
        raise UsageProblem(f"no inventory of {engine!r}; there is one of {', '.join(FILES)}")
    return read_inventory(DATA / FILES[engine])


def read_inventory(path: Path) -> Inventory:
    """The inventory in `path`; `BadInput` naming the field."""
    return validated(Inventory, read_mapping(path), file=path)


def load_all() -> tuple[Inventory, ...]:
    """Every engine's inventory."""
    return tuple(load_inventory(engine) for engine in FILES)


def fates(inventories: Iterable[Inventory]) -> dict[str, int]:
    """How many tests have met which fate."""
    counts = dict.fromkeys(("ported", "skipped", "not_applicable", "unaccounted"), 0)
    for inventory in inventories:
        for _, test in inventory.tests():
            counts[test.fate.state] += 1
    return counts
