"""What the collection found, as data: the tests with their cases and marks, the families, and the plugin's findings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from harness.rows.model import Dimension


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Place(_Strict):
    """A finding of the plugin, as it made it."""

    code: str
    file: str
    line: int
    message: str


class CollectedCase(_Strict):
    id: str
    rows: tuple[str, ...]
    dimension: Dimension
    backend: str
    upstream: tuple[str, ...]


class CollectedMark(_Strict):
    """A `skip_case` or `xfail_case` on a test. `problems` are (code, words); without any, the other fields hold."""

    name: str
    problems: tuple[tuple[str, str], ...]
    row: str = ""
    kind: str = ""
    reason: str = ""
    owner: str = ""
    expires: str | None = None
    when: str = "always"
    cases: str = "*"


class CollectedTest(_Strict):
    """A test function. `name` is as in its node ID, `TestIt::test_it`; without families it has no cases."""

    nodeid: str
    file: str
    line: int
    name: str
    cases: tuple[CollectedCase, ...]
    marks: tuple[CollectedMark, ...]


class CollectedAncestor(_Strict):
    """The upstream test of a family. `rtol` and `atol` are the loosest that the inventory has of it."""

    engine: str
    file: str
    test: str
    bound: str | None
    rtol: float | None = None
    atol: float | None = None


class Reach(_Strict):
    """The values of one axis on one backend and encoding: those that some case has, and why the others are none."""

    backend: str
    encoding: str
    axis: str
    kept: tuple[str, ...]
    refused: dict[str, str]


class CollectedFamily(_Strict):
    name: str
    op: str
    dimension: Dimension
    files: tuple[str, ...]
    bound: str
    upstream: tuple[CollectedAncestor, ...]
    reach: tuple[Reach, ...]


class Collected(_Strict):
    """One collection of a tree. `files` are the test files that were collected; `broken` those that cannot be
    imported, with the error."""

    files: tuple[str, ...]
    tests: tuple[CollectedTest, ...]
    families: tuple[CollectedFamily, ...]
    findings: tuple[Place, ...]
    broken: dict[str, str]
    items: int
