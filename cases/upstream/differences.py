"""The places where equal names mean different bytes or arithmetic: `differences.yaml`.

Each entry is the ancestry of a case that must fail when one engine's reading is taken for another's.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.rows.strict_yaml import read_mapping, validated

PATH = Path(__file__).parent / "differences.yaml"


class Difference(BaseModel):
    """One difference: what each engine does, what follows, where it was read, and the rows that it touches."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9_]+(-[a-z0-9_]+)*$")
    topic: str
    facts: dict[str, str] = Field(min_length=1)
    consequence: str
    sources: tuple[str, ...] = Field(min_length=1)
    rows: tuple[str, ...] = Field(min_length=1)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    differences: tuple[Difference, ...]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        ids = [entry.id for entry in self.differences]
        if len(set(ids)) != len(ids):
            raise ValueError("every id once")
        return self


@cache
def load_differences(path: Path = PATH) -> dict[str, Difference]:
    """Every difference by id, in the file's order. `BadInput` names file and field."""
    content = validated(_File, read_mapping(path), file=path)
    return {entry.id: entry for entry in content.differences}
