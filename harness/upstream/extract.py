"""All tests of an engine's tree that the inventory is about, and what was left out of it and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import BadInput
from harness.upstream.cpp_tests import cpp_file
from harness.upstream.digest import digest
from harness.upstream.found import FoundFile, FoundTest
from harness.upstream.python_tests import python_file
from harness.upstream.scope import Rule, Scope
from harness.upstream.source import Module
from harness.upstream.tree import Tree, read_tree


@dataclass(frozen=True)
class Extracted:
    """`files` by path; `reasons` says by which rule a file is inside; `outside` holds what another rule leaves out.

    `unreadable` are files inside that could not be parsed or were too large, with the reason.
    """

    source: Path
    files: dict[str, FoundFile]
    reasons: dict[str, str]
    outside: dict[str, tuple[str, ...]]
    unreadable: dict[str, str]


def extract(source: Path, scope: Scope, known: Sequence[str]) -> Extracted:
    """The tests in `source` within `scope`. `known` are the inventory's paths, by which the engine's root is found.

    Errors as of `read_tree`; Unavailable also when there is C++ to read and no tree-sitter.
    """
    tree = read_tree(source, lambda name: name.endswith((".py", ".cpp")), known)
    modules: dict[str, Module | None] = {}
    files: dict[str, FoundFile] = {}
    reasons: dict[str, str] = {}
    outside: dict[str, list[str]] = {}
    unreadable = {
        path: "too large to be read" for path in tree.unread if scope.is_test(path) and scope.rule(path)
    }
    for path in sorted(tree.files):
        if not scope.is_test(path):
            continue
        rule = scope.rule(path)
        if rule is None:
            if (left := scope.outside_rule(path)) is not None:
                outside.setdefault(left.reason, []).append(path)
            continue
        try:
            found = _file(path, tree, modules, scope, rule)
        except BadInput as problem:
            unreadable[path] = f"{problem.field}: {problem.got}"
            continue
        if found.tests:
            files[path] = found
            reasons[path] = rule.reason
    return Extracted(
        source, files, reasons, {reason: tuple(paths) for reason, paths in outside.items()}, unreadable
    )


def _file(path: str, tree: Tree, modules: dict[str, Module | None], scope: Scope, rule: Rule) -> FoundFile:
    symbols = scope.symbols.get(path, {})
    known = {symbol for names in symbols.values() for symbol in names}

    def wanted(name: str, text: str) -> bool:
        if name in known:
            return True
        if f"{path}: {name}" in scope.left_out or (symbols and path.endswith(".cpp")):
            return False
        return rule.takes(name, text)

    if path.endswith(".py"):
        found = python_file(path, tree, modules, wanted, scope.methods)
    else:
        text = tree.text(path)
        assert text is not None
        found = cpp_file(path, text, wanted)
    return replace(found, tests=_renamed(found.tests, symbols)) if symbols else found


def _renamed(tests: tuple[FoundTest, ...], symbols: dict[str, tuple[str, ...]]) -> tuple[FoundTest, ...]:
    """The tests under the inventory's names: what it lists as one stands together."""
    by_name = {test.name: test for test in tests}
    used: set[str] = set()
    found = []
    for name, parts in symbols.items():
        members = [by_name[part] for part in parts if part in by_name]
        used.update(parts)
        if members:
            missing = ", ".join(part for part in parts if part not in by_name)
            joined = _joined(name, members)
            found.append(replace(joined, facts=(*joined.facts, ("gone", missing))) if missing else joined)
    return (*found, *(test for test in tests if test.name not in used))


def _joined(name: str, members: Sequence[FoundTest]) -> FoundTest:
    if len(members) == 1:
        return replace(members[0], name=name)
    return FoundTest(
        name=name,
        line=members[0].line,
        axes=None,
        checks=tuple(check for member in members for check in member.checks or ()),
        digest=digest(*(f"{member.name} {member.digest}" for member in members)),
    )
