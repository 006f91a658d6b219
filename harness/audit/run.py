"""One audit of a tree: the collection in a process of its own, the sources and the matrix meanwhile, then the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from harness.audit import (
    allow,
    baseline,
    bounds,
    claims,
    debts,
    early_exit,
    expectations,
    no_assertion,
    plugin_findings,
    siblings,
    swallowed,
    uncollected,
    unfinished,
)
from harness.audit.assertions import Assertions
from harness.audit.collect import Collection
from harness.audit.collected import Collected
from harness.audit.model import Audit, AuditCounts, AuditFinding, AuditRow, AuditSkip
from harness.audit.project import Module, Project
from harness.audit.rows import shares
from harness.audit.skips import Declared, declared
from harness.matrix.compute import compute
from harness.matrix.model import Matrix
from harness.paths import REPOSITORY
from harness.plugin.findings import Finding
from harness.rows.load import load_rows


def audit(
    root: Path = REPOSITORY,
    *,
    before: Audit | None = None,
    run_skipped: bool = False,
    matrix: Matrix | None = None,
) -> Audit:
    """The audit of the tree at `root`, held against `before` where it is given. `matrix` stands for the tree's own.

    `run_skipped` also runs what the debts skip. Raises BadInput for a test file that cannot be imported and a ledger,
    list or baseline that cannot be read; Unavailable where nothing is collected.
    """
    collection = Collection(root)
    matrix = matrix or compute(load_rows().values(), root)
    project = Project(root)
    collected = collection.result()
    modules = _modules(collected, project)
    skips = declared(collected, project)
    rows = shares(collected, skips, matrix)
    listed = tuple(_listed(skip, rows) for skip in skips)
    of_bounds = bounds.find(collected.families)

    found = list(expectations.find(collected, modules, project))
    found += plugin_findings.find(collected, project, found)
    found += uncollected.find(collected, modules, root)
    found += unfinished.find(root)
    assertions = Assertions(project)
    for each in (no_assertion, early_exit, swallowed):
        found += each.find(modules, assertions)
    found += claims.find(skips, matrix)
    if run_skipped:
        found += debts.find(skips, root)
    if before is not None:
        found += baseline.find(before, rows, listed)
    of_families = (*of_bounds.findings, *siblings.find(collected.families))
    left = _sorted(allow.without_excused(found, of_families, modules, project))
    counts = AuditCounts(
        files=len(collected.files),
        tests=len(collected.tests),
        cases=sum(len(test.cases) for test in collected.tests),
        families=len(collected.families),
        skips=_by_kind(listed),
        debts=sum(skip.cases for skip in listed if skip.debt),
        bounds_compared=of_bounds.compared,
        bounds_not_comparable=of_bounds.not_comparable,
        findings=dict(sorted(Counter(finding.code for finding in left).items())),
    )
    findings = tuple(AuditFinding(**vars(finding)) for finding in left)
    return Audit(counts=counts, skips=listed, findings=findings, rows=rows)


def _modules(collected: Collected, project: Project) -> list[Module]:
    """The files that were collected, and the `conftest.py` files above all that might be, each once."""
    paths: dict[Path, None] = {project.root / file: None for file in collected.files}
    for path in (*paths, *uncollected.test_files(project.root)):
        paths |= dict.fromkeys(project.conftests(path))
    found = [project.module(path) for path in paths]
    return [module for module in found if module is not None]


def _listed(skip: Declared, rows: Iterable[AuditRow]) -> AuditSkip:
    of = next((row.cases for row in rows if row.id == skip.row), 0)
    return AuditSkip(
        nodeid=skip.test.nodeid,
        row=skip.row,
        kind=skip.kind,
        reason=skip.reason,
        owner=skip.owner,
        expires=skip.expires,
        upstream=tuple(dict.fromkeys(name for case in skip.cases for name in case.upstream)),
        when=skip.when,
        debt=skip.debt,
        cases=skip.count,
        of=of,
        file=skip.file,
        line=skip.line,
    )


def _by_kind(skips: Iterable[AuditSkip]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for skip in skips:
        counts[skip.kind] += skip.cases
    return dict(sorted(counts.items()))


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    """Each once, by file and line."""
    return sorted(set(findings), key=lambda each: (each.file, each.line, each.code, each.message))
