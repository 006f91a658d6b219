"""Read the row files into `Row` values. The files are the only list of rows; nothing else names them all.

A file holds one family: `family`, `title`, `sources`, `defaults` (fields that its rows share unless they say
otherwise), `profiles` (named sets of dimensions) and `rows`. An error names file, row and field.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from harness.errors import BadInput, UsageProblem
from harness.rows.model import Row, RowsDocument
from harness.rows.strict_yaml import read_mapping, validated

DATA = Path(__file__).parent / "data"

# What an alias takes over from the row that it stands for.
_SHARED_WITH_TARGET = ("dimensions", "encodings", "no_encoding", "bits_per_weight", "block_elems", "preset")


class _RowFile(BaseModel):
    """The frame of a row file; the rows themselves are checked one by one, so that an error can name its row."""

    model_config = ConfigDict(extra="forbid", strict=True)

    family: str
    title: str
    order: int
    sources: list[str]
    defaults: dict[str, Any] = {}
    profiles: dict[str, dict[str, Any]] = {}
    rows: list[dict[str, Any]]


def load_rows(directory: Path = DATA) -> dict[str, Row]:
    """Every row by id, in the order of the files (`order`) and of the rows in them. Cached for each directory.

    Raises `BadInput` naming file, row and field.
    """
    return dict(_load(directory)[0])


def families(directory: Path = DATA) -> dict[str, str]:
    """Family -> title, in display order."""
    return dict(_load(directory)[1])


def row(row_id: str) -> Row:
    """The row of that id; `UsageProblem` with the nearest names when there is none."""
    rows = load_rows()
    if row_id not in rows:
        raise UsageProblem(f"no row {row_id}{near(row_id, rows)}")
    return rows[row_id]


def rows_of_family(family: str | None) -> dict[str, Row]:
    """The rows of one family, or all of them; `UsageProblem` naming the families when there is no such family."""
    if family is None:
        return load_rows()
    if family not in families():
        raise UsageProblem(f"no family {family!r}; the families are {', '.join(families())}")
    return {name: entry for name, entry in load_rows().items() if entry.family == family}


def rows_document(rows: Iterable[Row]) -> RowsDocument:
    """`rows` with their counts, as `harness rows --json` writes them."""
    listed = tuple(rows)
    counts = {
        "total": len(listed),
        "upstream": sum(entry.origin == "upstream" for entry in listed),
        "ours": sum(entry.origin == "ours" for entry in listed),
        "aliases": sum(entry.alias_of is not None for entry in listed),
        "claimable": sum(entry.claimable for entry in listed),
    }
    for entry in listed:
        counts[entry.family] = counts.get(entry.family, 0) + 1
    return RowsDocument(counts=counts, rows=listed)


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean A, B or C?`, or nothing when no known name is near."""
    found = difflib.get_close_matches(name.upper(), list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""


@cache
def _load(directory: Path) -> tuple[dict[str, Row], dict[str, str]]:
    paths = sorted(directory.glob("*.yaml"))
    if not paths:
        raise BadInput(
            file=directory, field="(directory)", got="no .yaml file", wanted="one row file a family"
        )
    files = sorted(
        ((path, validated(_RowFile, read_mapping(path), file=path)) for path in paths),
        key=lambda pair: (pair[1].order, pair[0].name),
    )
    raw: dict[str, tuple[Path, dict[str, Any]]] = {}
    titles: dict[str, str] = {}
    for path, content in files:
        if content.family in titles:
            raise BadInput(
                file=path, field="family", got=content.family, wanted="a family that no other file has"
            )
        titles[content.family] = content.title
        for index, entry in enumerate(content.rows):
            filled = _filled(path, content, index, entry)
            if filled["id"] in raw:
                other = raw[filled["id"]][0].name
                raise BadInput(
                    file=path,
                    field=f"rows[{index}].id",
                    got=filled["id"],
                    wanted=f"an id not used in {other}",
                )
            raw[filled["id"]] = (path, filled)
    return {name: _row(path, entry, raw) for name, (path, entry) in raw.items()}, titles


def _filled(path: Path, content: _RowFile, index: int, entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with the file's defaults below it, its profile looked up, and a lone note wrapped."""
    filled: dict[str, Any] = {**content.defaults, **entry, "family": content.family}
    if not isinstance(filled.get("id"), str):
        raise BadInput(file=path, field=f"rows[{index}].id", got=filled.get("id"), wanted="a row id")
    profile = filled.get("dimensions")
    if isinstance(profile, str):
        if profile not in content.profiles:
            raise BadInput(
                file=path,
                field=f"row {filled['id']}, dimensions",
                got=profile,
                wanted=f"a profile of this file ({', '.join(content.profiles)}) or a mapping",
            )
        filled["dimensions"] = content.profiles[profile]
    if isinstance(filled.get("notes"), str):
        filled["notes"] = [filled["notes"]]
    return filled


def _row(path: Path, entry: dict[str, Any], raw: dict[str, tuple[Path, dict[str, Any]]]) -> Row:
    target = entry.get("alias_of")
    if target is not None:
        if target not in raw or raw[target][1].get("alias_of") is not None:
            raise BadInput(
                file=path,
                field=f"row {entry['id']}, alias_of",
                got=target,
                wanted="a row that exists and is no alias itself",
                hint=near(str(target), raw).lstrip("; ") or None,
            )
        entry = entry | {name: raw[target][1][name] for name in _SHARED_WITH_TARGET if name in raw[target][1]}
    return validated(Row, entry, file=path, where=f"row {entry['id']}, ")
