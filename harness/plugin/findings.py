"""Findings of the collection: what makes a file's result untrustworthy is an error of that file, with its line.

A finding fails the collection with exit code 1; a file that cannot be read at all stays pytest's own error, 2.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.plugin.expectations import skip_problems
from harness.plugin.static import calls_of, raw_uses

FINDING = "harness_finding"
"""Attribute of a collect report that failed for nothing but findings."""


@dataclass(frozen=True)
class Finding:
    """One finding: a stable code, where it is, and what to do."""

    code: str
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code}: {self.message}"


FINDINGS = pytest.StashKey[list[Finding]]()
"""Every finding of the session, in the order in which they were made."""
_FOUND = pytest.StashKey[dict[str, list[Finding]]]()
_SCANNED = pytest.StashKey[set[Path]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FINDINGS] = []
    config.stash[_FOUND] = {}
    config.stash[_SCANNED] = set()


def report_finding(collector: pytest.Collector | None, config: pytest.Config, finding: Finding) -> None:
    """Remember a finding; the collector that it lies in fails with it. Said once, however often it is found."""
    held = config.stash[_FOUND].setdefault(collector.nodeid if collector else "", [])
    if finding not in held:
        held.append(finding)
        config.stash[FINDINGS].append(finding)


def shown(config: pytest.Config, path: Path) -> str:
    """A path as messages name it: below the root directory where it is."""
    return str(path.relative_to(config.rootpath)) if path.is_relative_to(config.rootpath) else str(path)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if isinstance(collector, pytest.Module):
        _scan(collector)
    if report.skipped:
        # Out of a library, while the file was imported.
        words = f"the file is skipped while it is collected: {_reason(report)}"
        where = shown(collector.config, collector.path), 1
        report_finding(collector, collector.config, Finding("raw-skip", *where, words))
    found = collector.config.stash[_FOUND].pop(collector.nodeid, [])
    return failed_report(collector.nodeid, found) if found else report


def _reason(report: pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def failed_report(nodeid: str, found: list[Finding]) -> pytest.CollectReport:
    text = "\n".join(str(finding) for finding in sorted(found, key=lambda each: (each.file, each.line)))
    report = pytest.CollectReport(nodeid, "failed", text, [])
    setattr(report, FINDING, True)
    return report


def _scan(module: pytest.Module) -> None:
    """Raw skips of the file and of the conftest files above it, each file once."""
    config = module.config
    above = [
        folder / "conftest.py" for folder in module.path.parents if folder.is_relative_to(config.rootpath)
    ]
    for path in (module.path, *above):
        if path in config.stash[_SCANNED] or not path.is_file():
            continue
        config.stash[_SCANNED].add(path)
        for use in raw_uses(path):
            message = f"{use.name} hides what does not run; use skip_case or xfail_case (docs/skips.md)"
            report_finding(module, config, Finding("raw-skip", shown(config, path), use.line, message))
        for call in calls_of(path, "skip_case"):
            if problems := skip_problems(dict(call.values)):
                where = shown(config, path), call.line
                report_finding(
                    module, config, Finding("bad-skip-case", *where, "; ".join(map(str, problems)))
                )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Findings that no file of its own failed with."""
    left = [finding for found in session.config.stash[_FOUND].values() for finding in found]
    session.config.stash[_FOUND].clear()
    if left:
        session.config.hook.pytest_collectreport(report=failed_report("", left))
