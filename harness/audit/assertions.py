"""Where a test asserts: in itself, in a fixture, or in a function of the project that it calls, however far away."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.audit.project import Function, FunctionNode, Project
from harness.plugin.static import full_name

ASSERTING = frozenset(
    {
        *("pytest.raises", "pytest.warns", "pytest.deprecated_call", "pytest.fail", "pytest.RaisesGroup"),
        *("_pytest.outcomes.fail", "jsonschema.validate"),
    }
)
"""Functions of others that raise on what they are not content with: that is their purpose."""
MATCHERS = frozenset({"fnmatch_lines", "fnmatch_lines_random", "re_match_lines", "no_fnmatch_line"})
"""Methods of pytest's own results that assert without saying so in their names."""
VERDICT = "verdict"
"""The fixture that judges a case; whoever is given it is taken to use it, where its code is not at hand."""


class Assertions:
    """Which functions of a project assert, each looked through once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[Function, bool] = {}
        self._nodes: dict[ast.AST, bool] = {}

    def function(self, function: Function) -> bool:
        """Whether a function asserts, or calls one that does."""
        if function not in self._known:
            self._known[function] = False  # a cycle asserts nothing by itself
            self._known[function] = self.within(function.node, function)
        return self._known[function]

    def within(self, node: ast.AST, function: Function) -> bool:
        """Whether something below `node`, which stands in `function`, asserts."""
        if node not in self._nodes:
            self._nodes[node] = any(self._asserts(each, function) for each in _reached(node))
        return self._nodes[node]

    def _asserts(self, node: ast.AST, function: Function) -> bool:
        if isinstance(node, ast.Assert):
            return not isinstance(node.test, ast.Constant)
        if isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            return isinstance(raised, ast.Name) and raised.id == "AssertionError"
        if isinstance(node, ast.Call):
            return self._call(node, function)
        return False

    def _call(self, call: ast.Call, function: Function) -> bool:
        name = call.func
        if full_name(name, function.module.names) in ASSERTING:
            return True
        last = name.id if isinstance(name, ast.Name) else name.attr if isinstance(name, ast.Attribute) else ""
        if last.startswith("assert") or last in MATCHERS:
            return True
        if VERDICT in function.parameters and _root(name) == VERDICT:
            return True
        handed = [each for each in _arguments(call) if isinstance(each, ast.Name | ast.Attribute)]
        found = [each for value in (name, *handed) for each in self._project.called(value, function)]
        if any(map(self.function, found)):
            return True
        known = self._project.called(name, function)
        return not known and any(_root(each) == VERDICT for each in handed)


def _reached(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and what is below it, less functions that are defined there and never named again."""
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if (
            isinstance(each, FunctionNode)
            and each is not node
            and each.name not in used
            and not each.decorator_list
        ):
            continue
        yield each
        waiting.extend(ast.iter_child_nodes(each))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
