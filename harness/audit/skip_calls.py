"""Skips that are decided inside a test: every call of `skip_case` in the sources, and the tests that can get there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.audit.project import Function, Module, Project, functions_of, tests_of
from harness.plugin.expectations import KINDS, Problem, skip_problems

FIXTURE = "skip_case"

# For keywords that only a run could tell: anything that is in order, so that the others are still looked at.
_IN_ORDER = {
    "row": "QUANT-GGUF-Q4_0",
    "kind": "upstream_limit",
    "reason": "something that only a run of the test can tell",
    "owner": "somebody",
}


@dataclass(frozen=True)
class SkipCall:
    """One call. `values` are the keywords that are written out; `open` names those that are computed."""

    function: Function
    line: int
    values: tuple[tuple[str, object], ...]
    open: frozenset[str]

    def text(self, name: str, otherwise: str) -> str:
        """A keyword as it is written, or `otherwise`."""
        value = dict(self.values).get(name)
        return value if isinstance(value, str) else otherwise

    @property
    def kind(self) -> str:
        return self.text("kind", "upstream_limit")

    def problems(self) -> list[Problem]:
        """What is wrong about it, as far as it is written out."""
        values = dict(self.values)
        if "expires" in self.open and values.get("kind") in KINDS:
            values["kind"] = "upstream_limit"
        stand_ins = {name: _IN_ORDER[name] for name in self.open if name in _IN_ORDER}
        return skip_problems({**values, **stand_ins})


def calls_in(function: Function) -> Iterator[SkipCall]:
    """The calls of the fixture in a function that has it."""
    if FIXTURE not in function.parameters:
        return
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == FIXTURE:
            yield _read(function, node)


def reached_from(test: Function, project: Project) -> list[SkipCall]:
    """Every call that a run of the test can come to: in itself, its fixtures, and the functions that it hands the
    fixture to."""
    seen: dict[Function, None] = {}
    waiting = [test, *project.autouse(test.module)]
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen[function] = None
        for name in function.parameters:
            waiting += project.fixtures(name, function.module)
        for node in ast.walk(function.node):
            if isinstance(node, ast.Call) and _hands_on(node):
                waiting += project.called(node.func, function)
    return [call for function in seen for call in calls_in(function)]


def all_calls(modules: Iterable[Module], project: Project) -> list[SkipCall]:
    """The calls in these files, whoever gets there, and those elsewhere that their tests can come to; each once."""
    found: dict[tuple[str, int], SkipCall] = {}
    for module in modules:
        near = [call for function in functions_of(module) for call in calls_in(function)]
        far = [call for test in tests_of(module) for call in reached_from(test, project)]
        found |= {(call.function.module.file, call.line): call for call in (*near, *far)}
    return list(found.values())


def _hands_on(call: ast.Call) -> bool:
    given = [*call.args, *(each.value for each in call.keywords)]
    return any(isinstance(value, ast.Name) and value.id == FIXTURE for value in given)


def _read(function: Function, call: ast.Call) -> SkipCall:
    values: dict[str, object] = {}
    computed: set[str] = set()
    for keyword in call.keywords:
        if keyword.arg is None:
            computed |= {*_IN_ORDER, "expires"}
            continue
        try:
            values[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            computed.add(keyword.arg)
    return SkipCall(function, call.lineno, tuple(values.items()), frozenset(computed))
