"""The exit status of a session: that of the verdicts, and pytest's own words mapped to ours (docs/verdicts.md)."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from harness.plugin.findings import FINDING
from harness.plugin.recorder import recorder_of
from harness.verdicts import EXIT_BAD_INPUT, EXIT_DIFFERENCE, EXIT_UNABLE, exit_code

SHOWING = (
    *("collectonly", "help", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow"),
)
"""Options that ask for a look at the suite instead of a run of it."""
_BROKEN = pytest.StashKey[dict[bool, int]]()
"""Collect reports that failed: for findings alone, and for anything else."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int | None, int | None]:
    try:
        status = yield
    except pytest.UsageError as problem:
        for line in str(problem).splitlines():
            sys.stderr.write(f"ERROR: {line}\n")
        return EXIT_BAD_INPUT
    return status if status is None else _status(config, int(status))


def _status(config: pytest.Config, status: int) -> int:
    if status == pytest.ExitCode.USAGE_ERROR:
        return EXIT_BAD_INPUT
    broken = config.stash.get(_BROKEN, {})
    if broken and status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.TESTS_FAILED):
        return EXIT_BAD_INPUT if broken.get(False) else EXIT_DIFFERENCE
    recorder = recorder_of(config)
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        return exit_code(recorder.pairs()) if recorder else EXIT_UNABLE
    if hasattr(config, "workerinput") or any(config.getoption(name, False) for name in SHOWING):
        return status
    if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and recorder and recorder.pairs():
        return exit_code(recorder.pairs())
    # Somebody has ended the session before it ran anything, and called that well.
    return EXIT_UNABLE if status == pytest.ExitCode.OK else status


class _CollectionErrors:
    """An error of the collection stops the session before any test, under xdist too."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.failed:
            return
        broken = self._config.stash.setdefault(_BROKEN, {})
        finding = bool(getattr(report, FINDING, False))
        broken[finding] = broken.get(finding, 0) + 1
        distributed = self._config.pluginmanager.getplugin("dsession")
        if distributed is not None and not self._config.option.continue_on_collection_errors:
            distributed.shouldstop = f"{sum(broken.values())} errors during collection"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_CollectionErrors(config), "harness-collection-errors")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    recorder = recorder_of(session.config)
    if recorder is not None:
        recorder.close()
