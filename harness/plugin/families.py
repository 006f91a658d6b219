"""`@pytest.mark.cases(FAMILY)`: a test becomes one item for each case, with the markers of the case's rows."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from harness.errors import HarnessError, UsageProblem
from harness.evidence import required
from harness.evidence.case import Case, Family
from harness.plugin.devices import DEVICE_BACKENDS
from harness.plugin.expectations import Skipping, covers, failing, skip_misfit, skipping
from harness.plugin.findings import Finding, report_finding, shown
from harness.rows.load import row
from harness.rows.model import Dimension

_OWNERS = pytest.StashKey[dict[str, str]]()
UPDATE = "pytest --collect-only --update-required writes the lists anew"
COLLECTED = pytest.StashKey[dict[str, Family]]()
"""Families that some test asked for in this session, by name."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_OWNERS] = {}
    config.stash[COLLECTED] = {}


def case_of(item: pytest.Item) -> Case | None:
    """The case that an item runs, or None for a plain test."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("case") if callspec is not None else None
    return case if isinstance(case, Case) and item.get_closest_marker("cases") else None


def needs_gpu(case: Case) -> bool:
    return case.backend.startswith(DEVICE_BACKENDS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = list(metafunc.definition.iter_markers("cases"))
    if len(marks) > 1:
        _found(metafunc, "bad-family", "two cases marks, of which one would be ignored: name all in one")
    mark = marks[0] if marks else None
    cases: list[Case] = []
    if mark is not None:
        cases = _cases_of(metafunc, mark)
        metafunc.parametrize("case", [pytest.param(case, id=case.id, marks=_markers(case)) for case in cases])
    _check_expectations(metafunc, cases)


def _cases_of(metafunc: pytest.Metafunc, mark: pytest.Mark) -> list[Case]:
    if not mark.args or not all(isinstance(family, Family) for family in mark.args) or mark.kwargs:
        _found(metafunc, "bad-family", "cases(...) wants the families themselves, at least one")
        return []
    cases: list[Case] = []
    for family in mark.args:
        own = list(family.cases())
        metafunc.config.stash[COLLECTED][family.name] = family
        for axis, value in family.dead_values():
            _found(metafunc, "dead-value", f"family {family.name}: no case has {axis} = {value}")
        if not own:
            _found(metafunc, "dead-value", f"family {family.name} has no case")
        _check_list(metafunc, own)
        cases += [case for case in own if _sound(metafunc, case)]
    return cases


def _sound(metafunc: pytest.Metafunc, case: Case) -> bool:
    """Whether the ID is new and evidence of the case would stand in a cell of the matrix."""
    owners = metafunc.config.stash[_OWNERS]
    nodeid = metafunc.definition.nodeid
    if case.id in owners:
        _found(metafunc, "duplicate-case", f"case {case.id} is already run by {owners[case.id]}")
        return False
    owners[case.id] = nodeid
    problem = _cell_problem(case)
    if problem:
        _found(metafunc, "no-cell", f"case {case.id}: {problem}")
    return problem is None


def _cell_problem(case: Case) -> str | None:
    if not case.rows:
        return "it belongs to no row"
    for name in case.rows:
        try:
            found = row(name)
        except UsageProblem as problem:
            return str(problem)
        if not found.claimable:
            return f"{name} claims nothing itself"
        if case.backend not in found.coverage(case.dimension).backends:
            return f"{name} has no cell {case.dimension} on {case.backend}"
    return None


def _check_list(metafunc: pytest.Metafunc, cases: list[Case]) -> None:
    root = metafunc.config.rootpath
    if metafunc.config.option.update_required or not (root / required.FOLDER).is_dir():
        return
    try:
        for line in required.differences(cases, root):
            _found(metafunc, "required", f"{line}; {UPDATE}")
    except HarnessError as problem:
        _found(metafunc, "required", str(problem))


def _markers(case: Case) -> list[pytest.MarkDecorator]:
    names = sorted({row(name).marker for name in case.rows})
    names += ["gpu"] if needs_gpu(case) else []
    names += [{Dimension.E2E: "e2e", Dimension.PERF: "perf"}.get(case.dimension, "")]
    marks = [getattr(pytest.mark, name) for name in names if name]
    return [*marks, pytest.mark.nightly(reason=case.nightly)] if case.nightly else marks


def _check_expectations(metafunc: pytest.Metafunc, cases: Iterable[Case]) -> None:
    """Skips and expected failures on the test: well formed, and about a row that its cases have."""
    rows = {name for case in cases for name in case.rows}
    for name, read in (("skip_case", skipping), ("xfail_case", failing)):
        for mark in metafunc.definition.iter_markers(name):
            try:
                if mark.args:
                    raise UsageProblem("only keywords")
                expected = read(mark.kwargs)
            except UsageProblem as problem:
                _found(metafunc, f"bad-{name.replace('_', '-')}", str(problem))
                continue
            if rows and expected.row not in rows:
                _found(metafunc, "idle-skip", f"{name}: no case of the test belongs to {expected.row}")
            elif isinstance(expected, Skipping) and (misfit := _misfit(expected, cases)):
                _found(metafunc, f"bad-{name.replace('_', '-')}", misfit)
    for mark in metafunc.definition.iter_markers():
        if mark.name in ("skip", "skipif", "xfail"):
            _found(metafunc, "raw-skip", f"the mark {mark.name}; use skip_case or xfail_case (docs/skips.md)")


def _misfit(skip: Skipping, cases: Iterable[Case]) -> str | None:
    problems = (skip_misfit(skip, case) for case in cases if covers(skip, case))
    return next(filter(None, problems), None)


def _found(metafunc: pytest.Metafunc, code: str, message: str) -> None:
    definition = metafunc.definition
    finding = Finding(code, shown(metafunc.config, definition.path), _line_of(definition), message)
    parent = definition.parent
    report_finding(parent if isinstance(parent, pytest.Collector) else None, metafunc.config, finding)


def _line_of(definition: pytest.Function) -> int:
    """The line of the first decorator, or of the function."""
    code = getattr(definition.function, "__code__", None)
    return code.co_firstlineno if code is not None else 1
