"""`bar.yaml`: what a unit needs before it is finished. Each part has a file, or the reason why it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.newformat.request import Kind
from harness.rows.model import ROW_ID
from harness.rows.strict_yaml import read_mapping, validated

FILE = "bar.yaml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Stand(_Strict):
    """Where a part lies (from the tree's root) and the function that has to be there, or why it does not apply."""

    file: str | None = None
    function: str = ""
    not_applicable: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.file is None) == (self.not_applicable is None):
            raise ValueError("either file, or not_applicable with the reason")
        if self.function and self.file is None:
            raise ValueError("a function only where there is a file")
        return self


class Bar(_Strict):
    """The whole file."""

    kind: Kind
    row: str = Field(pattern=ROW_ID)
    parts: dict[str, Stand]


def read_bar(file: Path) -> Bar:
    """The bar of a unit. Raises BadInput naming file and field."""
    return validated(Bar, read_mapping(file), file=file)
