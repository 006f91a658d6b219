"""What a coverage row is: its fields, the dimensions, the backends, and the rules that hold between them.

`docs/rows.md` explains the words. Everything here is frozen; `load` turns the data files into it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

ROW_ID = r"^QUANT-[A-Z0-9]+([-_][A-Z0-9]+)*$"
ENCODING = r"^[a-z][a-z_]*\.[a-z0-9][a-z0-9_]*$"
BACKEND = r"^(cpu|triton@(interpreter|sm_\d{2,3})|cuda@sm_\d{2,3}|metal@(shim|apple))$"
STAND_INS = frozenset({"triton@interpreter", "metal@shim"})
"""Backends that run a kernel without its device. The best that they can show is `emulated`."""

Dialect = Literal[
    "ggml", "mlx", "ocp", "fnuz", "modelopt", "compressed_tensors", "gptq", "awq", "bnb", "vllm"
]
DIALECTS: tuple[str, ...] = get_args(Dialect)

Surface = Literal["gguf", "vllm", "mlx", "kv"]
Oracle = Literal[
    "llama_cpp.ops", "llama_cpp.model", "vllm.cpu", "vllm.cuda", "mlx.cpu", "mlx.metal", "mlx.cuda", "formats"
]
Span = Literal["tensor", "channel", "token", "head", "128x128", "row"]
"""A block that is not a count of neighbouring elements: one scale for all of the named thing."""


class Dimension(StrEnum):
    """What a row can claim, each on its own; none follows from another."""

    RECOGNIZE = "Recognize"
    MATERIALIZE = "Materialize"
    COMPUTE = "Compute"
    E2E = "E2E"
    PERF = "Perf"


def _known_backend(name: str) -> str:
    if not re.match(BACKEND, name):
        raise ValueError(
            "a backend: cpu, triton@interpreter, triton@sm_NN, cuda@sm_NN, metal@shim or metal@apple"
        )
    return name


def _known_dialect(name: str) -> str:
    if not re.match(ENCODING, name) or name.split(".")[0] not in DIALECTS:
        raise ValueError(f"<dialect>.<name> in lower case with a dialect of {', '.join(DIALECTS)}")
    return name


Backend = Annotated[str, AfterValidator(_known_backend)]
Encoding = Annotated[str, AfterValidator(_known_dialect)]
Text = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Coverage(_Strict):
    """One dimension of one row: the backends that complete it, those that only add to it, or why there are none."""

    required: tuple[Backend, ...] = Field(default=(), description="The dimension shows the worst of these.")
    optional: tuple[Backend, ...] = Field(
        default=(),
        description="Backends with a cell of their own whose absence costs nothing; a failure counts.",
    )
    not_applicable: Text | None = Field(default=None, description="Why the dimension is n/a for this row.")

    @property
    def applies(self) -> bool:
        return self.not_applicable is None

    @property
    def backends(self) -> tuple[str, ...]:
        """Every backend with a cell, the required ones first."""
        return self.required + self.optional

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        if self.not_applicable is not None and self.backends:
            raise ValueError("either backends or not_applicable with a reason, not both")
        if self.not_applicable is None and not self.required:
            raise ValueError("at least one required backend, or not_applicable with a reason")
        if stand_ins := [name for name in self.required if name in STAND_INS]:
            raise ValueError(
                f"{stand_ins[0]} only under optional: it runs without the device and proves only emulated"
            )
        if len(set(self.backends)) != len(self.backends):
            raise ValueError("every backend once")
        return self


class Upstream(_Strict):
    """Where the leaf comes from: the engine and the places in its sources that define it."""

    engine: Literal["llama.cpp", "vllm", "mlx", "mlx-lm"]
    at: tuple[Text, ...] = Field(min_length=1)


class Preset(_Strict):
    """A named recipe of llama.cpp's quantizer. Which tensor gets which encoding depends on the model too."""

    ftype: int = Field(ge=0, description="llama_ftype, the number in general.file_type.")
    group: Text = Field(description="The block of names that upstream lists it in.")
    default: Encoding = Field(description="What a plain weight gets when its width allows it.")
    needs_imatrix: bool = Field(default=False, description="The quantizer refuses some tensors without one.")


class Retired(_Strict):
    """A leaf that an engine had and removed. It stays in the list with its history and claims nothing."""

    engine: Text
    last_in: Text
    gone_in: Text
    history: Text


class Row(_Strict):
    """One leaf of the coverage matrix."""

    id: str = Field(pattern=ROW_ID)
    family: Text
    surface: Surface = Field(description="The pytest marker is quant_<surface>.")
    item: Text = Field(description="The format, scheme, preset or duty, in one line.")
    scope: Text = Field(description="What is in and what is out: types, precisions, devices.")
    origin: Literal["upstream", "ours"]
    upstream: Upstream | None = None
    oracles: tuple[Oracle, ...] = Field(description="Pins, the judge first.")
    encodings: tuple[Encoding, ...] = ()
    no_encoding: Text | None = Field(default=None, description="Why the row has no encoding of its own.")
    bits_per_weight: tuple[float, ...] = Field(
        default=(), description="Stored bits a weight, block scales included; wider scales are left out."
    )
    block_elems: tuple[int | Span, ...] = Field(
        default=(), description="Weights in a block or group, or what shares one scale."
    )
    dimensions: dict[Dimension, Coverage]
    claimable: bool = True
    alias_of: str | None = Field(default=None, pattern=ROW_ID)
    preset: Preset | None = None
    retired: Retired | None = None
    notes: tuple[Text, ...] = ()

    @field_validator("bits_per_weight")
    @classmethod
    def _positive(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 < bits <= 64 for bits in value):
            raise ValueError("bits per weight between 0 and 64")
        return value

    @field_validator("block_elems")
    @classmethod
    def _counted(cls, value: tuple[int | str, ...]) -> tuple[int | str, ...]:
        if any(isinstance(block, int) and block < 1 for block in value):
            raise ValueError("a count of at least 1, or one of tensor, channel, token, head, 128x128, row")
        return value

    @field_validator("dimensions")
    @classmethod
    def _all_five(cls, value: dict[Dimension, Coverage]) -> dict[Dimension, Coverage]:
        if missing := [name for name in Dimension if name not in value]:
            raise ValueError(f"all five dimensions; {', '.join(missing)} is missing")
        return {name: value[name] for name in Dimension}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.encodings) == (self.no_encoding is not None):
            raise ValueError("encodings, or no_encoding with the reason, and not both")
        if self.origin == "upstream" and self.upstream is None:
            raise ValueError("an upstream reference, since origin is upstream")
        applies = any(coverage.applies for coverage in self.dimensions.values())
        if self.claimable and not applies:
            raise ValueError("claimable: false, since no dimension applies")
        if self.claimable and (self.alias_of or self.retired):
            raise ValueError("claimable: false, since an alias or a retired row claims nothing itself")
        if self.claimable and not self.oracles:
            raise ValueError("at least one oracle pin for a claimable row")
        return self

    @property
    def marker(self) -> str:
        """The pytest marker under which the row's cases run."""
        return f"quant_{self.surface}"

    def coverage(self, dimension: Dimension) -> Coverage:
        return self.dimensions[dimension]


class RowsDocument(_Strict):
    """What `harness rows --json` writes; its JSON Schema is `docs/schemas/rows.schema.json`."""

    schema_: Literal["harness-rows/1"] = Field(default="harness-rows/1", alias="schema")
    counts: dict[str, int] = Field(
        description="total, upstream, ours, aliases, claimable, and one entry a family."
    )
    rows: tuple[Row, ...]
