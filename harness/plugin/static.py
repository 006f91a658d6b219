"""What the source of a test file says without being run: the raw ways of not running a test, with their lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RAW = frozenset(
    {
        *("pytest.skip", "pytest.xfail", "pytest.importorskip"),
        *("pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail"),
        *("unittest.skip", "unittest.skipIf", "unittest.skipUnless", "unittest.expectedFailure"),
        *("unittest.SkipTest", "unittest.case.SkipTest"),
        *("_pytest.outcomes.skip", "_pytest.outcomes.xfail", "_pytest.outcomes.importorskip"),
        "_pytest.outcomes.Skipped",
    }
)
RAW_METHODS = frozenset({"skipTest"})
MARK_ADDERS = frozenset({"add_marker", "applymarker"})
RAW_MARKS = frozenset({"skip", "skipif", "xfail"})


@dataclass(frozen=True)
class Use:
    """One use of a name: `pytest.mark.skipif` at a line of a file."""

    path: Path
    line: int
    name: str


@dataclass(frozen=True)
class Call:
    """One call whose arguments are all written out as keywords with plain values."""

    path: Path
    line: int
    values: tuple[tuple[str, object], ...]


def parsed(path: Path) -> ast.Module | None:
    """The syntax tree of a file; None when it does not parse: importing it fails with a better message."""
    try:
        return ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError):
        return None


def calls_of(path: Path, function: str) -> list[Call]:
    """The calls of `function` by that plain name, as far as their arguments can be read without running anything."""
    found = []
    for node in ast.walk(parsed(path) or ast.Module([], [])):
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function
        if not named or not isinstance(node, ast.Call) or node.args:
            continue
        try:
            values = tuple((str(each.arg), ast.literal_eval(each.value)) for each in node.keywords)
        except ValueError:
            continue
        found.append(Call(path, node.lineno, values))
    return found


def raw_uses(path: Path) -> list[Use]:
    """Every raw skip or expected failure in a file, by its full name whatever it was imported as."""
    tree = parsed(path)
    if tree is None:
        return []
    names = imported_names(tree)
    found = {Use(path, line, name) for line, name in _raw(tree, names)}
    return sorted(found, key=lambda use: (use.line, use.name))


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Local name -> full name, for every import and plain alias anywhere in the file (`s = pytest.skip` too)."""
    # A star import may bring these in, and nothing else is called so.
    names = {"pytest": "pytest", "unittest": "unittest"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (value := full_name(node.value, names)):
            names |= {target.id: value for target in node.targets if isinstance(target, ast.Name)}
    return names


def full_name(node: ast.AST, names: dict[str, str]) -> str | None:
    """`pytest.mark.skip` for whatever an expression calls it, where that can be read off; None otherwise."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        base = full_name(node.value, names)
        return f"{base}.{node.attr}" if base else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) >= 2
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
    ):
        base = full_name(node.args[0], names)
        return f"{base}.{node.args[1].value}" if base else None
    return None


def _raw(tree: ast.AST, names: dict[str, str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imported = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from ((node.lineno, name) for name in imported if name in RAW)
        elif (
            isinstance(node, ast.Name | ast.Attribute | ast.Call) and (name := full_name(node, names)) in RAW
        ):
            yield node.lineno, str(name)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in RAW_METHODS:
            yield node.lineno, node.func.attr
        elif node.func.attr in MARK_ADDERS:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and argument.value in RAW_MARKS:
                    yield node.lineno, f"{node.func.attr}({argument.value!r})"
