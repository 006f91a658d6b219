"""The names of a Python module, evaluated when they are asked for and followed into the modules they come from."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import BadInput
from harness.upstream.digest import digest, without_comments
from harness.upstream.evaluate import Evaluator
from harness.upstream.tree import Tree
from harness.upstream.values import Opaque, Unknown

DEEPEST_IMPORT = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Step:
    """One statement that gives a name its value, or adds to it. `certain` is false under a condition that is not known."""

    how: str
    node: ast.expr
    certain: bool


class Module:
    """One parsed file. `lookup` gives the value of a module-level name; functions and classes are Opaque."""

    def __init__(self, path: str, text: str, tree: Tree, known: dict[str, Module | None]) -> None:
        """BadInput with the line when the text is not Python."""
        self.path = path
        self._lines = text.splitlines(keepends=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes of other people's strings
                self.body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            raise BadInput(
                file=path, field=f"line {line}" if line else "(file)", got=error, wanted="Python"
            ) from None
        self._tree = tree
        self._known = known
        self._steps: dict[str, list[_Step]] = {}
        self._imports: dict[str, tuple[str, str]] = {}
        self._values: dict[str, Any] = {}
        self._definitions: dict[str, tuple[str, tuple[str, ...]] | None] = {}
        self._open: set[str] = set()
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        for node in self.body:
            self._read(node, certain=True)

    def lookup(self, name: str) -> Any:
        """The value of a module-level name or dotted member. Unknown when it cannot be told."""
        if name in self._values:
            return self._values[name]
        if name in self._open or len(self._open) > 200:
            raise Unknown(f"{name} is defined by itself")
        self._open.add(name)
        try:
            value = self._evaluated(name)
        finally:
            self._open.discard(name)
        self._values[name] = value
        return value

    def node(self, name: str) -> ast.expr | None:
        """The expression that a module-level name was last set to."""
        steps = self._steps.get(name, ())
        return next((step.node for step in reversed(steps) if step.how == "set"), None)

    def text_of(self, node: ast.stmt | ast.expr) -> str:
        """The source lines of a node less comments, decorators included."""
        first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", ()))])
        return without_comments("".join(self._lines[first - 1 : node.end_lineno]))

    def digest_of(self, *nodes: ast.stmt) -> str:
        """One digest of `nodes` and of everything of this module that they refer to by name, through any number of steps."""
        found: dict[str, str] = {}
        queue = [name for node in nodes for name in names_in(node)]
        while queue:
            name = queue.pop()
            if name not in found and (reached := self._definition(name)) is not None:
                found[name] = reached[0]
                queue += reached[1]
        return digest(*map(self.text_of, nodes), *(found[name] for name in sorted(found)))

    def _definition(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        """The text of a name's definition and the names that stand in it; None for what the module does not define."""
        if name not in self._definitions:
            nodes: list[ast.stmt | ast.expr] = [step.node for step in self._steps.get(name, ())]
            owner = self.functions.get(name) or self.classes.get(name)
            nodes += [owner] if owner is not None else []
            text = "".join(map(self.text_of, nodes))
            inner = tuple(inner for node in nodes for inner in names_in(node))
            self._definitions[name] = (text, inner) if nodes else None
        return self._definitions[name]

    def _evaluated(self, name: str) -> Any:
        if name in self._steps:
            return self._folded(name, self._steps[name])
        if name in self._imports:
            return self._imported(*self._imports[name])
        if name in self.functions or name in self.classes:
            return Opaque(name)
        owner, _, member = name.rpartition(".")
        if owner in self.classes:
            return self._member(self.classes[owner], member)
        raise Unknown(f"{name} is not defined in the module")

    def _folded(self, name: str, steps: Sequence[_Step]) -> Any:
        value: Any = None
        evaluator = Evaluator(self.lookup)
        for step in steps:
            if not step.certain:
                raise Unknown(f"{name} depends on the machine")
            if step.how == "set":
                value = evaluator.value(step.node)
            elif step.how == "append":
                value = [*_list(value), evaluator.value(step.node)]
            else:
                value = [*_list(value), *evaluator.iterate(step.node)]
        return value

    def _imported(self, module: str, name: str) -> Any:
        if len(self._open) > DEEPEST_IMPORT * 8:
            raise Unknown("imports that go too deep")
        found = load_module(module, self._tree, self._known)
        if found is None:
            return Opaque(name)
        try:
            return found.lookup(name)
        except Unknown:
            if name in found._steps:
                raise
            return Opaque(name)

    def _member(self, owner: ast.ClassDef, member: str) -> Any:
        for node in owner.body:
            target = _single_target(node)
            if target == member and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                return Evaluator(self.lookup).value(node.value)
        raise Unknown(f"{owner.name} has no value {member}")

    def _read(self, node: ast.stmt, *, certain: bool) -> None:
        if isinstance(node, Function):
            self.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(self.path, node)
            for alias in node.names:
                self._imports[alias.asname or alias.name] = (module, alias.name)
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            for inner in inner_statements(node):
                self._read(inner, certain=isinstance(node, ast.With) and certain)
        else:
            for name, how, value in assigned(node):
                self._steps.setdefault(name, []).append(_Step(how, value, certain))


def load_module(name: str, tree: Tree, known: dict[str, Module | None]) -> Module | None:
    """The module of that dotted name in the tree, or None when the tree does not have it as readable Python."""
    if name not in known:
        known[name] = None
        base = name.replace(".", "/")
        for path in (f"{base}.py", f"{base}/__init__.py"):
            text = tree.text(path)
            if text is not None:
                try:
                    known[name] = Module(path, text, tree, known)
                except BadInput:
                    break
    return known[name]


def assigned(node: ast.stmt) -> Iterator[tuple[str, str, ast.expr]]:
    """The names that a plain statement sets or adds to: name, `set`, `extend` or `append`, and the expression."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, "set", node.value
            elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
                for part, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(part, ast.Name):
                        yield part.id, "set", value
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, "extend", node.value
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) == 1:
        function = node.value.func
        if (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.attr in ("append", "extend")
        ):
            yield function.value.id, function.attr, node.value.args[0]


def names_in(node: ast.AST) -> Iterator[str]:
    """The names that are read in `node`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield inner.id
        elif isinstance(inner, ast.arg):
            yield inner.arg  # a fixture of the module


def inner_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements directly inside a compound one, in order."""
    for field in ("body", "orelse", "finalbody"):
        yield from getattr(node, field, [])
    for handler in getattr(node, "handlers", []):
        yield from handler.body


def _single_target(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return None


def _absolute(path: str, node: ast.ImportFrom) -> str:
    """The dotted name of what is imported from, a relative one taken from the file's own folder."""
    if not node.level:
        return node.module or ""
    folder = path.split("/")[: -node.level]
    return ".".join([*folder, *([node.module] if node.module else [])])


def _list(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    raise Unknown("added to what is no list")
