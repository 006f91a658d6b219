"""Handlers that swallow whatever happens in a test, a failed assertion and a verdict among it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from harness.audit.assertions import Assertions
from harness.audit.project import Function, Module, functions_of
from harness.plugin.findings import Finding
from harness.plugin.static import full_name

CODE = "swallowed-failure"
EVERYTHING = frozenset({"Exception", "BaseException", "AssertionError", "CaseFailed", "NotJudged"})
"""Exceptions as which a failure of the test itself arrives, by the last part of their names."""


def find(modules: Iterable[Module], assertions: Assertions) -> Iterator[Finding]:
    """One finding a handler (or `contextlib.suppress`) around something that asserts which neither raises again nor
    asserts anything about what it has caught."""
    for module in modules:
        for function in functions_of(module):
            yield from _of(function, assertions)


def _of(function: Function, assertions: Assertions) -> Iterator[Finding]:
    for node in ast.walk(function.node):
        if isinstance(node, ast.Try | ast.TryStar):
            tried = any(assertions.within(each, function) for each in node.body)
            for handler in node.handlers if tried or function.is_test else ():
                if swallows(handler, function, assertions):
                    caught = ast.unparse(handler.type) if handler.type else "everything"
                    yield _finding(function, handler.lineno, f"catches {caught} and goes on")
        elif isinstance(node, ast.With):
            for item in node.items:
                if _suppresses(item.context_expr, function.module) and any(
                    assertions.within(each, function) for each in node.body
                ):
                    yield _finding(function, node.lineno, f"goes on after {ast.unparse(item.context_expr)}")


def swallows(handler: ast.ExceptHandler, function: Function, assertions: Assertions) -> bool:
    """Whether a handler catches a failure of the test itself and does not let it be seen."""
    return _catches(handler.type) and not _speaks(handler, function, assertions)


def _catches(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    named = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(ast.unparse(each).rsplit(".", 1)[-1] in EVERYTHING for each in named)


def _speaks(handler: ast.ExceptHandler, function: Function, assertions: Assertions) -> bool:
    """Whether the handler lets the failure be seen: it raises, asserts, or hands on what it has caught."""
    for node in ast.walk(ast.Module(handler.body, [])):
        if isinstance(node, ast.Raise):
            return True
        if handler.name and isinstance(node, ast.Name) and node.id == handler.name:
            return True
    return any(assertions.within(each, function) for each in handler.body)


def _suppresses(node: ast.expr, module: Module) -> bool:
    if not isinstance(node, ast.Call) or full_name(node.func, module.names) != "contextlib.suppress":
        return False
    return any(_catches(each) for each in node.args)


def _finding(function: Function, line: int, words: str) -> Finding:
    message = f"{function.name} {words}: a failure inside it is not seen"
    return Finding(CODE, function.module.file, line, message)
