"""`harness upstream update`: the inventory's files as another tree would have them, and the diff for whoever reviews it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.rows.strict_yaml import read_mapping, validated
from harness.upstream.dump import comment_of, plain
from harness.upstream.extract import extract
from harness.upstream.known import CPP
from harness.upstream.rewrite import as_text, cpp_document, release_of, rewritten
from harness.upstream.scope import scope_of


@dataclass(frozen=True)
class Rewrite:
    """One file of the inventory: its text as it is and as it would be."""

    path: Path
    before: str
    after: str

    def diff(self) -> str:
        """A unified diff; empty when nothing changes."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            fromfile=self.path.name,
            tofile=f"{self.path.name} (updated)",
        )
        return "".join(lines)


@dataclass(frozen=True)
class Update:
    """What an update writes, and the files of the tree that it could not read, with the reason: their tests stay."""

    rewrites: tuple[Rewrite, ...]
    unreadable: Mapping[str, str]


def update(engine: str, tree: Path, folder: Path | None = None, release: str | None = None) -> Update:
    """What `update` writes for `engine` after `tree`: the inventory and the file of C++ facts, where they change.

    `folder` holds the inventory's files (default: the repository's). Errors as of `diff`; BadInput also when what
    would be written could not be read again.
    """
    from cases.upstream.inventory import DATA, FILES, Inventory

    scope = scope_of(engine)
    data = DATA if folder is None else folder
    path, cpp = data / FILES[engine], data / CPP.name
    document = read_mapping(path)
    inventory = validated(Inventory, document, file=path)
    extracted = extract(tree, scope, [file.path for file in inventory.files])
    updated = rewritten(document, extracted, release or release_of(extracted.source), loops=scope.loops)
    validated(Inventory, updated, file=path, where="(as updated) ")
    before, facts = path.read_text(encoding="utf-8"), cpp.read_text(encoding="utf-8")
    found = [Rewrite(path, before, as_text(updated, before))]
    engines = read_mapping(cpp)["engines"]
    if any(name.endswith(".cpp") for name in extracted.files):
        found.append(Rewrite(cpp, facts, comment_of(facts) + plain(cpp_document(engines, engine, extracted))))
    changed = tuple(each for each in found if each.before != each.after)
    return Update(changed, extracted.unreadable)
