"""Keeps the evidence of a session: each line goes into the run's file as its report comes in, from whichever worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.evidence.record import Evidence
from harness.evidence.run import RunWriter, find_run, read_run
from harness.plugin.evidence import MESSAGE_LIMIT
from harness.plugin.outcome import EVIDENCE
from harness.plugin.selection import DONE
from harness.text import printable
from harness.verdicts import EXPECTED, Side, Verdict

NAME = "harness-recorder"
MOST_SHOWN = 10


class Recorder:
    """What the controlling process knows: the run's evidence, and how the tests without cases ended."""

    def __init__(self, root: Path, keep: bool, command: tuple[str, ...]) -> None:
        self.evidence: dict[str, Evidence] = {}
        self.plain: Counter[Verdict] = Counter()
        self.path: Path | None = None
        self.promised: set[str] = set()
        self._ended: set[str] = set()
        self._root = root
        self._keep = keep
        self._command = command
        self._writer: RunWriter | None = None
        self._started: dict[str, Evidence] = {}

    def resume(self, name: str) -> dict[str, str]:
        """Go on with a run. Returns the cases that have a verdict about the subject, with the code hash of then."""
        path = find_run(name, self._root)
        run = read_run(path)
        done = run.done_cases({case: entry.code_hash for case, entry in run.evidence.items()})
        self.evidence = {case: run.evidence[case] for case in run.evidence if case in done}
        self._writer = RunWriter.resume(path)
        self.path = path
        return {case: entry.code_hash for case, entry in self.evidence.items()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = getattr(report, EVIDENCE, None)
        if report.when == "setup" and line is not None:
            self._started[report.nodeid] = Evidence.model_validate_json(line)
        elif line is not None:
            self._started.pop(report.nodeid, None)
            self._ended.add(report.nodeid)
            self._append(Evidence.model_validate_json(line))
        elif report.nodeid in self._started:
            if report.when not in ("setup", "call", "teardown"):
                self._crashed(report)
        elif report.failed or report.when == "call" or report.skipped:
            self._ended.add(report.nodeid)
            self.plain[_plain(report)] += 1

    def never_ran(self) -> list[str]:
        """Node IDs that were selected, and of which nobody has said how they ended."""
        return sorted(self.promised - self._ended)

    def _crashed(self, report: pytest.TestReport) -> None:
        """xdist's own report about a worker that died: the case that it was running has killed it."""
        started = self._started.pop(report.nodeid)
        self._ended.add(report.nodeid)
        message = printable(f"the process died: {report.longreprtext}", MESSAGE_LIMIT)
        fields = {"verdict": Verdict.ERROR_RUN, "message": message}
        self._append(started.model_copy(update=fields))

    def _append(self, evidence: Evidence) -> None:
        self.evidence[evidence.case] = evidence
        if not self._keep:
            return
        if self._writer is None:
            self._writer = RunWriter.create(self._root, command=self._command)
            self.path = self._writer.path
        self._writer.append(evidence)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def pairs(self) -> list[tuple[Verdict, Side]]:
        """Everything that ran, as `verdicts.exit_code` wants it; plain tests count as the subject's."""
        found = [(entry.verdict, entry.side) for entry in self.evidence.values()]
        found += [(verdict, Side.SUBJECT) for verdict in self.plain]
        return found + [(Verdict.NOT_RUN, Side.SUBJECT) for _ in self.never_ran()]


def _plain(report: pytest.TestReport) -> Verdict:
    """The end of a test without a case, in our words."""
    if report.failed:
        return Verdict.ERROR_RUN
    if report.skipped:
        return Verdict.XFAIL if hasattr(report, "wasxfail") else Verdict.SKIP
    return Verdict.PASS


def recorder_of(config: pytest.Config) -> Recorder | None:
    """The recorder of the controlling process; None in an xdist worker."""
    found = config.pluginmanager.getplugin(NAME)
    return found if isinstance(found, Recorder) else None


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.stash[DONE] = config.workerinput["harness_done"]
        return
    option = config.option
    root = Path(option.evidence) if option.evidence else config.rootpath / "results" / "runs"
    recorder = Recorder(root, not option.no_evidence, ("pytest", *config.invocation_params.args))
    try:
        config.stash[DONE] = recorder.resume(option.resume) if option.resume else {}
    except HarnessError as problem:
        raise pytest.UsageError(f"--resume {option.resume}: {problem}") from None
    config.pluginmanager.register(recorder, NAME)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["harness_done"] = dict(node.config.stash[DONE])


def pytest_report_header(config: pytest.Config) -> list[str]:
    option = config.option
    lines = ["cases: seeds are derived from case IDs and kept with each verdict"]
    if option.repeat > 1:
        lines.append(f"cases: each runs {option.repeat} times, compared bit for bit")
    if option.shuffle is not None:
        lines.append(f"order: shuffled, --shuffle {option.shuffle}")
    if option.resume and (recorder := recorder_of(config)):
        lines.append(f"resuming {recorder.path}: {len(recorder.evidence)} cases are done")
    return lines


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    recorder = recorder_of(config)
    if recorder is None:
        return
    if (left := recorder.never_ran()) and not config.option.collectonly:
        terminalreporter.section("selected, and never run")
        shown = left[:MOST_SHOWN]
        for line in [*shown, *([f"and {len(left) - len(shown)} more"] if left[MOST_SHOWN:] else [])]:
            terminalreporter.write_line(f"NOT_RUN {line}")
    if not recorder.evidence:
        return
    terminalreporter.section("verdicts")
    for line in summary(recorder.evidence.values()):
        terminalreporter.write_line(line)
    if recorder.path is not None:
        terminalreporter.write_line(f"run {recorder.path.name} in {recorder.path}")


def summary(evidence: Iterable[Evidence]) -> list[str]:
    """Counts by verdict, and each case that needs attention with its seed."""
    entries = list(evidence)
    counts = Counter(entry.verdict for entry in entries)
    lines = [", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))]
    return lines + [
        f"{entry.verdict} {entry.case} (seed {entry.seed}): {entry.message}"
        for entry in sorted(entries, key=lambda entry: entry.case)
        if entry.verdict not in EXPECTED
    ]
