"""What the suite skips or expects to fail, gathered from marks, from calls inside tests, and from the devices needed."""

from __future__ import annotations

import fnmatch
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from harness.audit.collected import Collected, CollectedCase, CollectedMark, CollectedTest
from harness.audit.project import Function, Project
from harness.audit.skip_calls import reached_from
from harness.plugin.devices import DEVICE_BACKENDS

EXPECTED_FAILURE = "expected_failure"
"""The kind under which `xfail_case` is listed."""
IN_THE_TEST = "in the test"
"""What a skip waits for that a test decides by itself: up to all of its cases."""
ELSEWHERE = frozenset({"hardware", "platform"})
"""Kinds that are no debt where they wait for something: another machine runs them."""


@dataclass(frozen=True)
class Declared:
    """One skip of one test. `cases` are those that it is about; a test without cases has none and counts as one."""

    test: CollectedTest
    row: str
    kind: str
    reason: str
    owner: str
    expires: str | None
    when: str
    cases: tuple[CollectedCase, ...]
    line: int
    file: str

    @property
    def debt(self) -> bool:
        """Whether it is ours to pay, wherever the suite runs."""
        return self.kind not in ELSEWHERE or self.when == "always"

    @property
    def count(self) -> int:
        return len(self.cases) if self.test.cases else 1


def covered(mark: CollectedMark, test: CollectedTest) -> tuple[CollectedCase, ...]:
    """The cases of a test that a mark is about, whatever its condition."""
    return tuple(
        case for case in test.cases if mark.row in case.rows and fnmatch.fnmatchcase(case.id, mark.cases)
    )


def declared(collected: Collected, project: Project) -> list[Declared]:
    """Every skip of the suite, in the order of its tests. Marks that say too little are findings and no skips."""
    return [skip for test in collected.tests for skip in _of(test, project)]


def function_of(test: CollectedTest, project: Project) -> Function | None:
    """The source of a test; None where its file does not hold it under its own name."""
    module = project.module(project.root / test.file)
    if module is None:
        return None
    if test.name in module.functions:
        return module.functions[test.name]
    methods = module.methods.get(test.name.rpartition("::")[2], ())
    return next((method for method in methods if method.name == test.name), None)


def _of(test: CollectedTest, project: Project) -> Iterator[Declared]:
    for mark in test.marks:
        cases = covered(mark, test)
        if not mark.problems and (cases or not test.cases):
            yield Declared(
                test,
                mark.row,
                mark.kind,
                mark.reason,
                mark.owner,
                mark.expires,
                mark.when,
                cases,
                test.line,
                test.file,
            )
    yield from _by_devices(test)
    yield from _by_calls(test, project)


def _by_devices(test: CollectedTest) -> Iterator[Declared]:
    """Where there is no device the plugin skips by itself, in the debt of the first row of each case."""
    for backend in DEVICE_BACKENDS:
        cases = [case for case in test.cases if case.backend.startswith(backend)]
        metal = backend.startswith("metal")
        for row, members in _by_row(cases):
            yield Declared(
                test=test,
                row=row,
                kind="hardware",
                reason=f"{members[0].backend} runs only on {'Apple silicon' if metal else 'an NVIDIA device'}",
                owner="harness",
                expires=None,
                when="no_metal" if metal else "no_gpu",
                cases=tuple(members),
                line=test.line,
                file=test.file,
            )


def _by_calls(test: CollectedTest, project: Project) -> Iterator[Declared]:
    function = function_of(test, project)
    for call in reached_from(function, project) if function else ():
        if call.problems():
            continue
        named = call.text("row", "")
        groups = _by_row(test.cases) if not named else [(named, [c for c in test.cases if named in c.rows])]
        for row, members in groups or [(named or "(computed)", [])]:
            expires = dict(call.values).get("expires")
            yield Declared(
                test=test,
                row=row,
                kind=call.kind,
                reason=call.text("reason", "(computed in the test)"),
                owner=call.text("owner", "(computed in the test)"),
                expires=expires if isinstance(expires, str) else None,
                when=IN_THE_TEST,
                cases=tuple(members),
                line=call.line,
                file=call.function.module.file,
            )


def _by_row(cases: tuple[CollectedCase, ...] | list[CollectedCase]) -> list[tuple[str, list[CollectedCase]]]:
    found: dict[str, list[CollectedCase]] = defaultdict(list)
    for case in cases:
        if case.rows:
            found[case.rows[0]].append(case)
    return list(found.items())
