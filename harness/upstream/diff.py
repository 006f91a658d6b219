"""The comparison of a tree with the inventory of its engine, or with another tree."""

from __future__ import annotations

from pathlib import Path

from harness.upstream.compare import Comparison
from harness.upstream.extract import Extracted, extract
from harness.upstream.known import known_files
from harness.upstream.model import Diff, FileChange
from harness.upstream.scope import scope_of


def diff(engine: str, tree: Path, against: Path | None = None) -> Diff:
    """What `tree` adds, removes, re-parametrises and re-bounds against the inventory of `engine`, or against a tree.

    UsageProblem for an unknown engine or a tree that is not there, BadInput for a broken one, Unavailable for a tree
    without a file of the inventory.
    """
    from cases.upstream.inventory import load_inventory

    scope = scope_of(engine)
    inventory = load_inventory(engine)
    paths = [file.path for file in inventory.files]
    now = extract(tree, scope, paths)
    if against is None:
        was, name, loops = known_files(inventory), "the inventory", scope.loops
    else:
        was, name, loops = extract(against, scope, paths).files, against.name, False
    readable = {path: file for path, file in was.items() if path not in now.unreadable}
    compared = Comparison(readable, now.files, loops=loops)
    return Diff(
        engine=engine,
        tree=tree.name,
        against=name,
        counts=compared.counts(),
        added_files=tuple(_reasoned(file, now) for file in compared.added_files),
        removed_files=tuple(compared.removed_files),
        added_tests=tuple(compared.added_tests),
        removed_tests=tuple(compared.removed_tests),
        changed=tuple(compared.changed),
        text_only=tuple(compared.text_only),
        not_comparable=tuple(compared.not_comparable),
        outside=now.outside,
        unreadable=now.unreadable,
    )


def _reasoned(file: FileChange, now: Extracted) -> FileChange:
    return file.model_copy(update={"reason": now.reasons.get(file.path)})
