"""What lies in the cache folder: environments of oracles, checkpoints, remembered answers. All of it can be had again."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageProblem
from harness.paths import cache_root

_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([kMGT]?)i?B?", re.ASCII)
_UNITS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class Part:
    """One folder of the cache. `entries` counts what stands directly in it: environments, files, or answers."""

    name: str
    path: Path
    entries: int
    bytes: int


def parts() -> tuple[Part, ...]:
    """What the cache holds, one part a folder, sorted by name; empty where there is no cache."""
    from oracles.memo import Memo

    root = cache_root()
    found = []
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.is_dir():
            entries = sum(not entry.name.startswith(".") for entry in path.iterdir())
            answers = Memo().usage().answers if path.name == "memo" else entries
            found.append(Part(path.name, path, answers, size_of(path)))
    return tuple(found)


def size_of(path: Path) -> int:
    """Bytes of all files below `path`, links not followed; what goes away meanwhile is not counted."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_size
            except OSError:
                continue
    return total


def parse_size(text: str) -> int:
    """`500M`, `2G`, `1.5 GiB` or a number of bytes, in powers of 1024. Raises UsageProblem."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageProblem(f"{text!r} is no size; wanted a number of bytes, or one with k, M, G or T")
    return int(float(match[1]) * 1024 ** _UNITS[match[2]])


def shown_size(size: int) -> str:
    """`3.4 GiB`."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
