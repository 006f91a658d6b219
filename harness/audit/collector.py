"""The pytest plugin of the audit: it writes down what a collection found (`harness.audit.collected`), and runs nothing.

`pytest --collect-only -p harness.audit.collector --audit-collected FILE`
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.audit.collected import (
    Collected,
    CollectedAncestor,
    CollectedCase,
    CollectedFamily,
    CollectedMark,
    CollectedTest,
    Place,
    Reach,
)
from harness.evidence.case import Ancestor, Case, Family
from harness.plugin.expectations import skip_problems, xfail_problems
from harness.plugin.findings import FINDING, FINDINGS, shown

_TESTS = pytest.StashKey[list[CollectedTest]]()
_FAMILIES = pytest.StashKey[dict[str, Family]]()
_FILES = pytest.StashKey[set[str]]()
_BROKEN = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--audit-collected", metavar="FILE", help="write what was collected to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TESTS] = []
    config.stash[_FAMILIES] = {}
    config.stash[_FILES] = set()
    config.stash[_BROKEN] = {}
    config.pluginmanager.register(_Broken(config), "harness-audit-broken")
    # Nothing of what is collected goes away before the process does: looking for garbage costs a fifth of its time.
    gc.disable()
    # What is left to the nightly run is audited like everything else.
    config.option.nightly = True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    definition, config = metafunc.definition, metafunc.config
    families = [
        family
        for mark in definition.iter_markers("cases")
        for family in mark.args
        if isinstance(family, Family)
    ]
    config.stash[_FAMILIES].update((family.name, family) for family in families)
    code = getattr(definition.function, "__code__", None)
    config.stash[_TESTS].append(
        CollectedTest(
            nodeid=definition.nodeid,
            file=shown(config, definition.path),
            line=code.co_firstlineno if code is not None else 1,
            name="::".join(definition.nodeid.split("::")[1:]),
            cases=tuple(_case(case) for family in families for case in family.cases()),
            marks=tuple(_marks(definition)),
        )
    )


class _Broken:
    """Remembers the files that cannot be imported: a finding fails a file too, and is none of these."""

    def __init__(self, config: pytest.Config) -> None:
        self._broken = config.stash[_BROKEN]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not getattr(report, FINDING, False):
            self._broken[report.nodeid] = report.longreprtext.strip().rpartition("\n")[2]


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> None:
    parent.config.stash[_FILES].add(shown(parent.config, module_path))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    files, tests = config.stash[_FILES], config.stash[_TESTS]
    found = Collected(
        files=tuple(sorted(files)),
        tests=tuple(tests),
        families=tuple(_family(config, family) for family in config.stash[_FAMILIES].values()),
        findings=tuple(Place(**vars(finding)) for finding in config.stash.get(FINDINGS, [])),
        broken=config.stash[_BROKEN],
        items=session.testscollected,
    )
    Path(config.option.audit_collected).write_text(found.model_dump_json(), encoding="utf-8")


def _case(case: Case) -> CollectedCase:
    upstream = tuple(f"{each.engine} {each.file}: {each.test}" for each in case.upstream)
    return CollectedCase(
        id=case.id, rows=case.rows, dimension=case.dimension, backend=case.backend, upstream=upstream
    )


def _marks(definition: Any) -> Iterator[CollectedMark]:
    for name, problems_of in (("skip_case", skip_problems), ("xfail_case", xfail_problems)):
        for mark in definition.iter_markers(name):
            problems = tuple((problem.code, problem.words) for problem in problems_of(mark.kwargs))
            if mark.args:
                problems = (*problems, ("bad-expectation", "only keywords"))
            if problems:
                yield CollectedMark(name=name, problems=problems)
                continue
            wanted = CollectedMark.model_fields.keys() - {"name", "problems", "kind"}
            fields = {key: value for key, value in mark.kwargs.items() if key in wanted}
            kind = mark.kwargs.get("kind", "expected_failure")
            yield CollectedMark(name=name, problems=(), kind=kind, **fields)


def _family(config: pytest.Config, family: Family) -> CollectedFamily:
    return CollectedFamily(
        name=family.name,
        op=family.op,
        dimension=family.dimension,
        files=tuple(shown(config, path) for path in family.files),
        bound=family.bound,
        upstream=tuple(_ancestor(ancestor) for ancestor in family.upstream),
        reach=tuple(_reach(family)),
    )


def _reach(family: Family) -> Iterator[Reach]:
    """Of each backend and encoding, which values of each axis have a case; of the others, why `refuse` refuses them."""
    kept: dict[tuple[str, str, str], dict[str, None]] = {}
    for case in family.cases():
        for axis, value in case.axes:
            kept.setdefault((case.backend, case.encoding or "", axis), {})[value] = None
    for backend, encoding, axis in itertools.product(family.backends, family.encodings or ("",), family.axes):
        alive = kept.get((backend, encoding, axis), {})
        refused = {
            value: _why(family, backend, encoding, axis, value)
            for value in family.axes[axis]
            if value not in alive
        }
        yield Reach(backend=backend, encoding=encoding, axis=axis, kept=tuple(alive), refused=refused)


def _why(family: Family, backend: str, encoding: str, axis: str, value: str) -> str:
    """The first reason for which a value of an axis has no case on this backend and encoding."""
    others: Iterable[tuple[str, ...]] = (
        (value,) if name == axis else values for name, values in family.axes.items()
    )
    for chosen in itertools.product(*others):
        seen = {**dict(zip(family.axes, chosen, strict=True)), "backend": backend}
        seen |= {"encoding": encoding} if encoding else {}
        if family.refuse is not None and (reason := family.refuse(seen)) is not None:
            return reason
    return ""


def _ancestor(ancestor: Ancestor) -> CollectedAncestor:
    rtol, atol = _inventory_bounds(ancestor) if ancestor.bound is None else (None, None)
    return CollectedAncestor(
        engine=ancestor.engine,
        file=ancestor.file,
        test=ancestor.test,
        bound=ancestor.bound,
        rtol=rtol,
        atol=atol,
    )


def _inventory_bounds(ancestor: Ancestor) -> tuple[float | None, float | None]:
    """The loosest rtol and atol of an upstream test, where the inventory has them as numbers."""
    from cases.upstream.inventory import FILES, load_inventory

    if ancestor.engine not in FILES:
        return None, None
    checks = [
        check
        for file, test in load_inventory(ancestor.engine).tests()
        if (file.path, test.name) == (ancestor.file, ancestor.test)
        for check in test.checks
    ]
    bounds = ([check.rtol for check in checks], [check.atol for check in checks])
    rtol, atol = (
        max((value for value in values if isinstance(value, float)), default=None) for values in bounds
    )
    return rtol, atol
