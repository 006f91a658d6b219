"""The pins: which package at which version each oracle is, and what it is for.

Data from `oracles/<engine>/pin.yaml` and, where an engine has several, `oracles/<engine>/<name>/pin.yaml`.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import BadInput, UsageProblem
from harness.paths import ORACLES

if TYPE_CHECKING:
    from collections.abc import Mapping

Level = Literal["recognize", "tensors", "layers", "logits", "tokens"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

# Every worker runs these; a change in one of them is a change in every oracle.
SHARED_FILES = ("serve.py", "wire.py")

SDIST = "sdist"
"""Where a platform stands in `wheels` otherwise: the package is a source that is built here."""


class Build(BaseModel):
    """How the wheel of a pin is built from its sdist, with the tools that `build.lock` beside `pin.yaml` names.

    `minutes` is what it takes on two cores.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cmake_args: tuple[Annotated[str, Field(pattern=r"^-D\w+=\w+$")], ...]
    minutes: int


class Remembered(BaseModel):
    """The ops whose answers may be kept for another run (`oracles.memo`): pure functions of what they are sent.

    `any_cpu` are those whose every bit the arithmetic defines; of `same_cpu` the CPU may choose the code and the order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    any_cpu: tuple[str, ...] = ()
    same_cpu: tuple[str, ...] = ()


class Pin(BaseModel):
    """One pinned oracle: the fields of its `pin.yaml`, and the folder that holds it.

    `role` is `judge` for an engine that decides about its own dialects, `second` for an independent opinion on the
    dialects of others. `wheels` gives the sha256 of the package's wheel by platform (`linux-x86_64`, …, or `any`); with
    `build` that of its sdist, as `sdist`. `loads` names files of other folders that the worker loads by path, relative
    to its own.
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
    memo: Remembered = Remembered()
    build: Build | None = None
    loads: tuple[str, ...] = ()
    notes: str = ""

    @model_validator(mode="after")
    def _built_from_its_sdist(self) -> Self:
        if (self.build is not None) != (SDIST in self.wheels) or (self.build and len(self.wheels) != 1):
            raise ValueError("`build` goes with `wheels` that give one sha256, that of the sdist")
        return self

    @model_validator(mode="after")
    def _memo_names_ops(self) -> Self:
        named = (*self.memo.any_cpu, *self.memo.same_cpu)
        if strange := sorted({op for op in named if op not in self.ops or named.count(op) > 1}):
            raise ValueError(f"memo: {', '.join(strange)}: each an op of this pin, named once")
        return self

    @property
    def lock(self) -> Path:
        return self.folder / "requirements.lock"

    @property
    def worker(self) -> Path:
        return self.folder / "worker.py"

    @property
    def build_lock(self) -> Path:
        return self.folder / "build.lock"

    def worker_sha256(self) -> str:
        """One digest of the worker, of the files beside it, of those that it or every worker loads, and of the build."""
        digest = hashlib.sha256()
        shared = Path(__file__).resolve().parent
        loaded = (self.folder / name for name in self.loads)
        for path in (*sorted(self.folder.glob("*.py")), *(shared / name for name in SHARED_FILES), *loaded):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        if self.build is not None:
            digest.update(" ".join(self.build.cmake_args).encode())
            digest.update(hashlib.sha256(self.build_lock.read_bytes()).digest())
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
