"""Models that are split over several GGUF files, `NAME-00001-of-0000N.gguf`: which parts there are and that they fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.containers.files import MappedFile
from harness.containers.gguf_metadata import GgufValue
from harness.errors import BadInput

NUMBER_KEY = "split.no"  # u16, counted from 0; the file name counts from 1
COUNT_KEY = "split.count"  # u16
TENSORS_KEY = "split.tensors.count"  # i32, of all parts together
_TYPES = {NUMBER_KEY: "u16", COUNT_KEY: "u16", TENSORS_KEY: "i32"}
_NAME = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


def next_parts(metadata: Mapping[str, GgufValue], first: MappedFile) -> dict[int, Path]:
    """Paths of the parts after the first, by index; none for a model in one file.

    Raises BadInput when `first` is not the first part, its name does not follow the pattern, or a part is missing.
    """
    if COUNT_KEY not in metadata:
        return {}
    count = _number(metadata, COUNT_KEY, first)
    if count < 2:
        return {}
    match = _NAME.fullmatch(first.path.name)
    number = _number(metadata, NUMBER_KEY, first)
    if number != 0:
        name = first.path.name if match is None else part_name(match["prefix"], 0, count)
        raise _bad(
            metadata,
            NUMBER_KEY,
            first,
            f"{number}: this is part {number + 1} of {count}",
            "0",
            f"open the first part, {name}",
        )
    if match is None or int(match["number"]) != 1 or int(match["count"]) != count:
        raise BadInput(
            file=first.path,
            field="file name",
            got=first.path.name,
            wanted=f"a name that ends in {part_name('', 0, count)}",
            hint="the other parts are found by it",
        )
    paths = {
        index: first.path.with_name(part_name(match["prefix"], index, count)) for index in range(1, count)
    }
    missing = [path.name for path in paths.values() if _is_missing(path)]
    if missing:
        names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        got = f"{count} parts, of which {len(missing)} missing: {names}"
        raise _bad(metadata, COUNT_KEY, first, got, "all parts in one folder")
    return paths


def _is_missing(path: Path) -> bool:
    try:
        return not path.exists()
    except OSError:
        return False  # it may be there: opening it says what is the matter


def part_name(prefix: str, index: int, count: int) -> str:
    """File name of part `index` (from 0) of `count`."""
    return f"{prefix}-{index + 1:05}-of-{count:05}.gguf"


def check_next_part(
    metadata: Mapping[str, GgufValue], file: MappedFile, index: int, first: Mapping[str, GgufValue]
) -> None:
    """That the file found as part `index` says so itself, and counts as many parts as the first one."""
    number = _number(metadata, NUMBER_KEY, file)
    if number != index:
        raise _bad(metadata, NUMBER_KEY, file, number, f"{index}, by the file's name")
    count, wanted = _number(metadata, COUNT_KEY, file), first[COUNT_KEY].value()
    if count != wanted:
        raise _bad(metadata, COUNT_KEY, file, count, f"{wanted}, as in the first part")


def check_total(metadata: Mapping[str, GgufValue], first: MappedFile, found: int) -> None:
    """That all parts together hold as many tensors as the first one promises."""
    if COUNT_KEY not in metadata or _number(metadata, COUNT_KEY, first) < 2:
        return
    promised = _number(metadata, TENSORS_KEY, first)
    if promised != found:
        raise _bad(metadata, TENSORS_KEY, first, promised, f"{found}, the tensors in all parts")


def _number(metadata: Mapping[str, GgufValue], key: str, file: MappedFile) -> int:
    entry = metadata.get(key)
    if entry is None:
        raise BadInput(
            file=file.path,
            field=key,
            got="no such key",
            wanted=f"{_TYPES[key]}, as in every part of a split model",
        )
    if entry.type_name != _TYPES[key]:
        raise BadInput(
            file=file.path,
            field=f"{entry.place} type",
            offset=entry.type_offset,
            got=entry.type_name,
            wanted=_TYPES[key],
        )
    value: int = entry.value()
    return value


def _bad(
    metadata: Mapping[str, GgufValue],
    key: str,
    file: MappedFile,
    got: object,
    wanted: str,
    hint: str | None = None,
) -> BadInput:
    entry = metadata[key]
    return BadInput(file=file.path, field=entry.place, offset=entry.offset, got=got, wanted=wanted, hint=hint)
