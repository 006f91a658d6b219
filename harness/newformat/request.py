"""What is asked for: a name, a kind, a geometry, a row; checked before anything is looked at or written."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

from harness.errors import UsageProblem
from harness.rows.model import DIALECTS, ROW_ID
from harness.text import printable
from kernels.units import TYPE_BYTES

Kind = Literal["encoding", "method"]
LARGEST = 1 << 20
"""Weights or bytes of a block: more is a mistake, not a block."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,38}[a-z0-9]|[a-z]")
_TAKEN = {"tables": "lookup tables", "common": "shared loops", "tests": "tests"}
"""Folders below `kernels/` and `kernels/<dialect>/` that are no units."""


@dataclass(frozen=True)
class Request:
    """One format. `block_elems` and `block_bytes` are 0 for a method."""

    dialect: str
    name: str
    kind: Kind
    row: str
    row_given: bool
    block_elems: int = 0
    block_bytes: int = 0

    @property
    def format(self) -> str:
        """`<dialect>.<name>`."""
        return f"{self.dialect}.{self.name}"

    @property
    def identifier(self) -> str:
        """`<dialect>_<name>`, as files, C++ types and modules have it."""
        return f"{self.dialect}_{self.name}"


def request(
    name: str,
    *,
    kind: Kind = "encoding",
    dialect: str | None = None,
    block_elems: int | None = None,
    block_bytes: int | None = None,
    row: str | None = None,
) -> Request:
    """The request of a command line. Raises UsageProblem that says what was wanted."""
    before, dot, after = name.partition(".")
    if dot and dialect is not None and before != dialect:
        raise UsageProblem(f"{printable(name)}: its dialect is {printable(before)}, --dialect says {dialect}")
    dialect, name = (before, after) if dot else (dialect or "", name)
    if dialect not in DIALECTS:
        raise UsageProblem(f"dialect {printable(dialect)!r}{_near(dialect)}; NAME is <dialect>.<name>")
    if not _NAME.fullmatch(name):
        raise UsageProblem(
            f"name {printable(name)!r}: wanted lower-case letters, digits and underscores, at most 40, and none at the ends"
        )
    # Nothing could tell a mention of the format from one of the number type.
    if name in TYPE_BYTES or name in _TAKEN:
        raise UsageProblem(f"name {name}: taken by {_TAKEN.get(name, 'the number type')}")
    # The rows of ggml's encodings are called after the files that hold them.
    family = "gguf" if dialect == "ggml" else dialect.replace("_", "-")
    found = row or f"QUANT-{family}-{name}".upper()
    if not re.fullmatch(ROW_ID, found):
        raise UsageProblem(f"--row {printable(found)}: wanted QUANT-<WORDS> in capitals, as in QUANT-BNB")
    sizes = {"--block-elems": block_elems, "--block-bytes": block_bytes}
    if kind == "method":
        if given := [option for option, size in sizes.items() if size is not None]:
            raise UsageProblem(
                f"{given[0]}: a method has no block of its own, the encodings that it chooses have"
            )
        return Request(dialect, name, kind, found, row is not None)
    for option, size in sizes.items():
        if size is None or not 1 <= size <= LARGEST:
            got = "nothing" if size is None else size
            raise UsageProblem(f"{option}: got {got}, wanted a size from 1 to {LARGEST}")
    return Request(dialect, name, kind, found, row is not None, block_elems or 0, block_bytes or 0)


def _near(dialect: str) -> str:
    near = difflib.get_close_matches(dialect, DIALECTS, n=1)
    return f": did you mean {near[0]}?" if near else f": wanted one of {', '.join(DIALECTS)}"
