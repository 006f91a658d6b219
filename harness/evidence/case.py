"""Cases: op x encoding x values x backend, each with its bound, rows, dimension and upstream ancestry as data."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.rows.model import Dimension


@dataclass(frozen=True)
class Ancestor:
    """The upstream test that a case is ported from. `bound` is the one that upstream uses, in words."""

    engine: str
    file: str
    test: str
    bound: str | None = None


@dataclass(frozen=True)
class Case:
    """One thing that is tried. `axes` are (name, value) in the family's order; the backend is always the last part of `id`.

    A case ID stays: it is what the committed list of required cases, the ledger and the seeds refer to. `files` are
    the sources that define the family.
    """

    family: str
    op: str
    encoding: str | None
    backend: str
    dimension: Dimension
    rows: tuple[str, ...]
    axes: tuple[tuple[str, str], ...]
    bound: str
    upstream: tuple[Ancestor, ...] = ()
    files: tuple[Path, ...] = ()
    nightly: str = ""

    @property
    def id(self) -> str:
        """`ggml.decode/ggml.q4_k/special_scales/cpu`: printable, without spaces, unique in the suite."""
        parts = [self.family, *([self.encoding] if self.encoding else []), *(value for _, value in self.axes)]
        return "/".join([*parts, self.backend])

    @property
    def seed(self) -> int:
        """32 bits derived from the ID, so that a case draws the same numbers wherever it runs."""
        return int.from_bytes(hashlib.sha256(self.id.encode()).digest()[:4], "little")

    def axis(self, name: str) -> str:
        """The value of one axis; KeyError when the family has no such axis."""
        return dict(self.axes)[name]


Refusal = Callable[[Mapping[str, str]], str | None]
"""Given the axis values (with `encoding` and `backend`), why this combination is no case; None when it is one."""


@dataclass(frozen=True)
class Family:
    """A declared product of axes. Every value that an axis names must survive in at least one case.

    `rows` gives the rows of an encoding (or of None where the family has no encodings), `rows_by_axes` those of a
    combination of axis values where the encoding does not tell; `files` are the sources that define the case (test
    module, generators): a change in one makes evidence stale. `nightly` is the reason why its
    cases are too long for every change: only `pytest --nightly` runs them.
    """

    name: str
    op: str
    dimension: Dimension
    backends: tuple[str, ...]
    encodings: tuple[str, ...]
    axes: Mapping[str, tuple[str, ...]]
    rows: Callable[[str | None], tuple[str, ...]]
    bound: str
    files: tuple[Path, ...]
    upstream: tuple[Ancestor, ...] = ()
    refuse: Refusal | None = None
    nightly: str = ""
    rows_by_axes: Callable[[Mapping[str, str]], tuple[str, ...]] | None = None

    def cases(self) -> Iterator[Case]:
        """The product, less what `refuse` refuses, in a fixed order."""
        for encoding in self.encodings or (None,):
            for values in itertools.product(*self.axes.values()):
                chosen = dict(zip(self.axes, values, strict=True))
                for backend in self.backends:
                    seen = {**chosen, "backend": backend, **({"encoding": encoding} if encoding else {})}
                    if self.refuse is not None and self.refuse(seen) is not None:
                        continue
                    yield Case(
                        family=self.name,
                        op=self.op,
                        encoding=encoding,
                        backend=backend,
                        dimension=self.dimension,
                        rows=self.rows(encoding) if self.rows_by_axes is None else self.rows_by_axes(seen),
                        axes=tuple(chosen.items()),
                        bound=self.bound,
                        upstream=self.upstream,
                        files=self.files,
                        nightly=self.nightly,
                    )

    def dead_values(self) -> list[tuple[str, str]]:
        """Declared (axis, value) pairs that no case holds: the generator cannot produce what it claims."""
        alive: set[tuple[str, str | None]] = set()
        for case in self.cases():
            alive |= {*case.axes, ("backend", case.backend), ("encoding", case.encoding)}
        declared = [(axis, value) for axis, values in self.axes.items() for value in values]
        declared += [("backend", backend) for backend in self.backends]
        declared += [("encoding", encoding) for encoding in self.encodings]
        return [pair for pair in declared if pair not in alive]
