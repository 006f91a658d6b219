"""What becomes of each kind of GGUF file with us, with llama.cpp and with gguf-py: `gguf_outcomes.yaml`, read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.rows.strict_yaml import read_mapping, validated

TABLE = Path(__file__).with_name("gguf_outcomes.yaml")
ACCEPTED = "accepted"


class Outcome(BaseModel):
    """One kind. `ours` is `accepted` or the field that we refuse, with `[i]` and KEY for the damaged one's place and name;
    `engine` is `accepted` or words of the refusal; `gguf_py` is None where it is not asked.

    `unlike`: a field of the damaged pair in which two readings that accept the file differ. Where not all agree, `right`
    says who is right and `why` the reason.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    holds: str = Field(min_length=8)
    ours: str
    engine: str
    gguf_py: Literal["accepted", "refused"] | None = None
    unlike: str | None = None
    right: Literal["ours", "engine", "both"] | None = None
    why: str | None = None

    @model_validator(mode="after")
    def _a_difference_is_explained(self) -> Self:
        if self.differs != (self.right is not None and self.why is not None):
            raise ValueError("right and why, exactly where the readers differ")
        return self

    @property
    def differs(self) -> bool:
        """Whether the readers part ways over such a file."""
        accepted = self.ours == ACCEPTED
        others = [self.engine == ACCEPTED, *([] if self.gguf_py is None else [self.gguf_py == ACCEPTED])]
        return any(other != accepted for other in others) or self.unlike is not None


def difference_rows() -> list[str]:
    """One Markdown row for each thing that a file may hold over which the readers part ways, in the table's order."""
    outcomes = [outcome for outcome in load_outcomes().values() if outcome.differs]
    return list(dict.fromkeys(_row(outcome) for outcome in outcomes))


def _row(outcome: Outcome) -> str:
    cells = [
        outcome.holds,
        outcome.ours if outcome.ours == ACCEPTED else f"refused: `{outcome.ours}`",
        outcome.engine if outcome.engine == ACCEPTED else "refused",
        outcome.gguf_py or "",
        f"{outcome.right}: {outcome.why}",
    ]
    return f"| {' | '.join(cells)} |"


@cache
def load_outcomes() -> Mapping[str, Outcome]:
    """Every kind's outcome, by the kind's name. Raises BadInput."""
    return {
        kind: validated(Outcome, fields, file=TABLE, where=kind)
        for kind, fields in read_mapping(TABLE).items()
    }
