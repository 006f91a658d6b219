"""Ways of leaving a test, or one round of its loop, before anything was asserted."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from harness.audit.assertions import Assertions
from harness.audit.project import Function, FunctionNode, Module, functions_of, own_nodes
from harness.audit.swallowed import swallows
from harness.plugin.findings import Finding

RETURN, CONTINUE = "early-return", "hidden-continue"
_COMPOUND = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.Match


@dataclass(frozen=True)
class _Path:
    """What is certain at a statement: something was asserted since the beginning, and since this round of the loop; and
    whether something behind it still asserts, in the function and in this round."""

    ever: bool = False
    round: bool = False
    later: bool = False
    later_in_round: bool = False

    def asserted(self) -> _Path:
        return replace(self, ever=True, round=True)

    def before(self, asserts: bool) -> _Path:
        """The same, before something that asserts or does not."""
        return replace(self, later=self.later or asserts, later_in_round=self.later_in_round or asserts)


def find(modules: Iterable[Module], assertions: Assertions) -> Iterator[Finding]:
    """One finding a `return` or `continue` after which what the test would have asserted is not asserted."""
    for module in modules:
        for function in functions_of(module):
            if function.fixture is None and assertions.within(function.node, function):
                walk = _Walk(function, assertions)
                walk.statements(function.node.body, _Path())
                yield from walk.found


class _Walk:
    """The statements of one function along every path; `found` are its findings."""

    def __init__(self, function: Function, assertions: Assertions) -> None:
        self.found: list[Finding] = []
        self._function = function
        self._assertions = assertions
        self._inner = {
            node.name
            for node in ast.walk(function.node)
            if isinstance(node, FunctionNode)
            and node is not function.node
            and assertions.within(node, function)
        }
        # A helper that returns something is asked a question; one that returns nothing has to assert.
        self._answers = not function.is_test and any(
            isinstance(node, ast.Return) and node.value is not None for node in own_nodes(function.node)
        )

    def statements(self, body: list[ast.stmt], path: _Path) -> _Path | None:
        """The state behind the last statement; None when it is never reached."""
        now: _Path | None = path
        last = max((at for at, each in enumerate(body) if self._asserts(each)), default=-1)
        for at, statement in enumerate(body):
            if now is None:
                return None
            end = self._statement(statement, now.before(at < last))
            now = end and replace(path, ever=end.ever, round=end.round)
        return now

    def _statement(self, node: ast.stmt, path: _Path) -> _Path | None:
        if isinstance(node, ast.Return):
            if node.value is not None and self._asserts(node.value):
                return None
            if path.later and not path.ever and not self._answers:
                self._report(RETURN, node, "returns before anything is asserted")
            return None
        if isinstance(node, ast.Continue):
            if path.later_in_round and not path.round:
                self._report(
                    CONTINUE, node, "goes on to the next round of its loop before this one has asserted"
                )
            return None
        if isinstance(node, ast.Raise | ast.Break):
            return None
        if isinstance(node, _COMPOUND):
            return self._compound(node, path)
        if isinstance(node, FunctionNode | ast.ClassDef):
            return path  # it asserts where it is called
        return path.asserted() if self._asserts(node) else path

    def _compound(self, node: ast.stmt, path: _Path) -> _Path | None:
        if isinstance(node, ast.With | ast.AsyncWith):
            inside = path.asserted() if any(self._asserts(item) for item in node.items) else path
            return self.statements(node.body, inside)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            again = any(self._asserts(statement) for statement in node.body)
            self.statements(node.body, _Path(path.ever, False, path.later or again, False))
            # A loop that has run no round is for its own assertions to notice.
            return self.statements(node.orelse, path.asserted() if again else path)
        if isinstance(node, ast.If):
            return _both(self.statements(node.body, path), self.statements(node.orelse, path))
        if isinstance(node, ast.Match):
            ends = [self.statements(case.body, path) for case in node.cases]
            return _both(path, *ends)
        assert isinstance(node, ast.Try)
        ends = [
            # One that swallows a failure is a finding by itself, however it goes on.
            path
            if swallows(handler, self._function, self._assertions)
            else self.statements(handler.body, path)
            for handler in node.handlers
        ]
        tried = self.statements(node.body, path.before(any(map(self._asserts, node.orelse))))
        ends.append(tried if tried is None else self.statements(node.orelse, tried))
        end = _both(*ends)
        return self.statements(node.finalbody, end or path) if end is not None else None

    def _asserts(self, node: ast.AST) -> bool:
        if self._assertions.within(node, self._function):
            return True
        return bool(self._inner) and any(
            isinstance(each, ast.Name) and each.id in self._inner for each in ast.walk(node)
        )

    def _report(self, code: str, node: ast.stmt, words: str) -> None:
        module = self._function.module
        self.found.append(Finding(code, module.file, node.lineno, f"{self._function.name} {words}"))


def _both(*ends: _Path | None) -> _Path | None:
    """What is certain behind several ways of getting there."""
    reached = [end for end in ends if end is not None]
    if not reached:
        return None
    ever, this_round = (
        all(values) for values in zip(*((end.ever, end.round) for end in reached), strict=True)
    )
    return replace(reached[0], ever=ever, round=this_round)
