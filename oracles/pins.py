"""The pins: which package at which version each oracle is, and what it is for.

Data from `oracles/<engine>/pin.yaml` and, where an engine has several, `oracles/<engine>/<name>/pin.yaml`.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import BadInput, UsageProblem
from harness.paths import ORACLES

if TYPE_CHECKING:
    from collections.abc import Mapping

Level = Literal["recognize", "tensors", "layers", "logits", "tokens"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

# Every worker runs these; a change in one of them is a change in every oracle.
SHARED_FILES = ("serve.py", "wire.py")


class Pin(BaseModel):
    """One pinned oracle: the fields of its `pin.yaml`, and the folder that holds it.

    `role` is `judge` for an engine that decides about its own dialects, `second` for an independent opinion on the
    dialects of others. `wheels` gives the sha256 of the package's wheel by platform (`linux-x86_64`, …, or `any`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: Path
    name: str = Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)?$")
    engine: str
    package: str
    version: str
    wheels: dict[str, Sha256]
    role: Literal["judge", "second"]
    levels: tuple[Level, ...]
    ops: tuple[str, ...]
    dialects: tuple[str, ...]
    licence: str
    environment: dict[str, str] = {}
    notes: str = ""

    @property
    def lock(self) -> Path:
        return self.folder / "requirements.lock"

    @property
    def worker(self) -> Path:
        return self.folder / "worker.py"

    def worker_sha256(self) -> str:
        """One digest of the worker and of the files that every worker loads."""
        digest = hashlib.sha256()
        shared = Path(__file__).resolve().parent
        for path in (self.worker, *(shared / name for name in SHARED_FILES)):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


@functools.cache
def load_pins(folder: Path = ORACLES) -> Mapping[str, Pin]:
    """Every pin below `folder`, by name. Raises BadInput naming the file and the field of a broken one."""
    paths = sorted([*folder.glob("*/pin.yaml"), *folder.glob("*/*/pin.yaml")])
    pins = [_load_pin(path) for path in paths]
    return {pin.name: pin for pin in pins}


def _load_pin(path: Path) -> Pin:
    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(file=path, field="(whole file)", got=str(error), wanted="YAML") from None
    if not isinstance(data, dict):
        raise BadInput(file=path, field="(whole file)", got=type(data).__name__, wanted="a mapping")
    try:
        return Pin(folder=path.parent, **data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadInput(file=path, field=field, got=first.get("input"), wanted=first["msg"]) from None


def pin(name: str, folder: Path = ORACLES) -> Pin:
    """One pin by name. Raises UsageProblem with the near names when there is none."""
    pins = load_pins(folder)
    if name not in pins:
        raise UsageProblem(f"no oracle is called {name!r}; {_near(name, list(pins))}")
    return pins[name]


def pins_for(engine: str, level: str, folder: Path = ORACLES) -> tuple[str, ...]:
    """The names of the pins that judge `level` for an engine: the engine's own first, then the second opinions.

    Empty when no pin of the engine serves the level (yet). Raises UsageProblem for an engine that has no pin at all.
    """
    pins = load_pins(folder).values()
    own = [entry for entry in pins if entry.engine == engine]
    if not own:
        raise UsageProblem(
            f"no oracle engine is called {engine!r}; {_near(engine, [p.engine for p in pins])}"
        )
    judges = [entry for entry in own if level in entry.levels]
    dialects = {dialect for entry in judges for dialect in entry.dialects}
    seconds = [
        entry
        for entry in pins
        if entry.role == "second"
        and entry.engine != engine
        and level in entry.levels
        and dialects & set(entry.dialects)
    ]
    return tuple(entry.name for entry in judges + seconds)


def _near(name: str, names: list[str]) -> str:
    names = sorted(set(names))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names)}"
