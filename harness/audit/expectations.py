"""Findings about skips and expected failures themselves: what they leave out, and what they no longer fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.audit.collected import Collected, CollectedMark, CollectedTest
from harness.audit.project import Module, Project
from harness.audit.skip_calls import all_calls
from harness.audit.skips import covered
from harness.plugin.findings import Finding

UNMATCHED = "unmatched-expectation"


def find(collected: Collected, modules: Iterable[Module], project: Project) -> Iterator[Finding]:
    """One finding for each thing that is wrong about a mark on a test, or about a call of `skip_case` inside one."""
    for test in collected.tests:
        for mark in test.marks:
            yield from _of_mark(mark, test)
    for call in all_calls(modules, project):
        for problem in call.problems():
            yield Finding(problem.code, call.function.module.file, call.line, f"skip_case: {problem}")


def _of_mark(mark: CollectedMark, test: CollectedTest) -> Iterator[Finding]:
    for code, words in mark.problems:
        yield Finding(code, test.file, test.line, f"{mark.name}: {words}")
    if mark.problems:
        return
    if test.cases and not covered(mark, test):
        words = f"{mark.name}: none of the {len(test.cases)} cases of {test.name} is in {mark.row} and fits {mark.cases}"
        yield Finding(UNMATCHED, test.file, test.line, words)
    elif not test.cases and mark.cases != "*":
        words = f"{mark.name}: {test.name} has no cases, and so none that fits {mark.cases}"
        yield Finding(UNMATCHED, test.file, test.line, words)
