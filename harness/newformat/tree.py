"""A plan as a tree for the terminal: a line a file, with the parts that it holds."""

from __future__ import annotations

from collections.abc import Iterator

from harness.newformat.parts import parts_of
from harness.newformat.plan import Plan


def tree_of(plan: Plan) -> Iterator[str]:
    """One line a folder, one below it for each file; `+` before a file that is there and gets lines."""
    parts: dict[str, list[str]] = {}
    for part in parts_of(plan.request):
        parts.setdefault(part.file, []).append(part.name)
    folder = ""
    for path in sorted(plan.new | plan.changed):
        parent, _, name = path.rpartition("/")
        if parent != folder:
            folder = parent
            yield f"{folder}/"
        sign = "+" if path in plan.changed else " "
        yield f" {sign} {name:<22} {', '.join(parts.get(path, ()))}".rstrip()
