"""Writing a plan: everything, or nothing. Files are made beside the tree's own and moved into their places at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.errors import UsageProblem
from harness.newformat.plan import Plan
from harness.text import printable

Undo = list[Callable[[], object]]


def write(plan: Plan, tree: Path) -> None:
    """Write a plan into its tree. Raises UsageProblem when it cannot; then, and whatever else ends it, nothing is left."""
    try:
        with tempfile.TemporaryDirectory(prefix=".new-format-", dir=tree) as folder:
            undo: Undo = []
            try:
                _write(plan, tree, Path(folder), undo)
            except BaseException:
                for step in reversed(undo):
                    step()
                raise
    except OSError as error:
        where = printable(str(error.filename or tree))
        words = f"{plan.request.format}: cannot write {where}: {error.strerror or error}"
        raise UsageProblem(f"{words}; nothing was written") from None


def _write(plan: Plan, tree: Path, scratch: Path, undo: Undo) -> None:
    for path, text in (plan.new | plan.changed).items():
        made = scratch / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(text, encoding="utf-8")
    # The unit's folder first and as a whole: of two processes with one name the second finds it there.
    unit = tree / plan.folder
    _make_folder(unit.parent, undo)
    (scratch / plan.folder).rename(unit)
    undo.append(partial(shutil.rmtree, unit))
    for path in plan.new:
        target = tree / path
        if target.parent == unit:
            continue
        _make_folder(target.parent, undo)
        with target.open("xb") as stream:
            undo.append(target.unlink)
            stream.write((scratch / path).read_bytes())
    for path in plan.changed:
        target = tree / path
        before = target.read_bytes()
        shutil.copymode(target, scratch / path)
        (scratch / path).replace(target)
        undo.append(partial(target.write_bytes, before))


def _make_folder(folder: Path, undo: Undo) -> None:
    """The folder, with those above it that are not there."""
    if not folder.is_dir():
        _make_folder(folder.parent, undo)
        folder.mkdir()
        undo.append(folder.rmdir)
