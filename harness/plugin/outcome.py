"""What a test's end means: a case without a verdict is red, so are a raw skip, and an xfail that fails in another way."""

from __future__ import annotations

import inspect
from collections.abc import Generator

import pytest

from harness.errors import Unavailable, UsageProblem
from harness.evidence.case import Case
from harness.plugin.devices import missing_device
from harness.plugin.evidence import evidence_of
from harness.plugin.expectations import Failing, Skipping, applies, failing, skip_misfit, skipping
from harness.plugin.families import case_of
from harness.plugin.verdict import STATE, CaseFailed, CaseSkipped, NotAsExpected, NotJudged, State
from harness.verdicts import Side, Verdict
from oracles.worker_process import ProviderError

EVIDENCE = "harness_evidence"
"""Attribute of a report: at setup the case that is about to run, at teardown what it came to."""

_FAILING = pytest.StashKey[Failing | None]()
_ENDS = pytest.StashKey[dict[str, BaseException]]()
_EXPECTED = pytest.StashKey[Verdict | None]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    case = case_of(item)
    item.stash[_FAILING] = _expected_failure(item, case)
    if case is not None:
        item.stash[STATE] = State(runs=item.config.option.repeat)
    for mark in item.iter_markers("skip_case"):
        wanted = skipping(mark.kwargs)
        if applies(wanted, case):
            raise CaseSkipped(wanted)
    if case is not None and item.get_closest_marker("gpu") and (missing := missing_device(case.backend)):
        raise CaseSkipped(Skipping(case.rows[0], "hardware", missing, "harness"))


def _expected_failure(item: pytest.Item, case: Case | None) -> Failing | None:
    found = (failing(mark.kwargs) for mark in item.iter_markers("xfail_case"))
    return next((expected for expected in found if applies(expected, case)), None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the test of a case `--repeat` times, with the fixtures of one item."""
    state = pyfuncitem.stash.get(STATE, None)
    if state is None:
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    for run in range(state.runs):
        state.run = run
        state.buffers.clear()
        pyfuncitem.obj(**arguments)
        _insist_on_a_verdict(state)
    return True


def _insist_on_a_verdict(state: State) -> None:
    __tracebackhide__ = True
    if state.judged_runs <= state.run or state.judged is None:
        raise NotJudged("the test ended without a verdict: it returned early, or asserts nothing")
    if state.judged.verdict is not Verdict.PASS:
        raise CaseFailed(state.judged)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, CaseSkipped) and (instead := _no_skip(item, error)) is not None:
        error = instead
        _fail(report, str(error))
    if error is not None:
        item.stash.setdefault(_ENDS, {})[call.when] = error
    if call.when == "call" and STATE in item.stash:
        item.stash[STATE].seconds = call.duration
    if isinstance(error, CaseSkipped):
        _at_its_place(item, report, error)
    elif report.skipped:
        how = "xfail" if hasattr(report, "wasxfail") else "skip"
        _fail(report, f"raw {how}: {error or how}; use skip_case or xfail_case")
    else:
        _expectation(item, call.when, error, report)
    _attach(item, report)
    if report.failed and isinstance(error, CaseFailed | NotJudged | ProviderError):
        report.longrepr = _told(item, error)
    return report


def _no_skip(item: pytest.Item, error: CaseSkipped) -> BaseException | None:
    """What a skip that may not stand comes to: a verdict is not taken back by one."""
    case, state = case_of(item), item.stash.get(STATE, None)
    if case is not None and (problem := skip_misfit(error.skip, case)):
        return UsageProblem(problem)
    if state is None or state.judged is None:
        return None
    if state.judged.verdict is not Verdict.PASS:
        return CaseFailed(state.judged)
    return UsageProblem(f"skipped after its verdict: {error}")


def _told(item: pytest.Item, error: CaseFailed | NotJudged | ProviderError) -> str:
    """The verdict itself says what is wrong: a traceback would only show where it was asked for."""
    path, line, _ = item.location
    case = case_of(item)
    lines = [f"{path}:{(line or 0) + 1}: {error}"]
    if isinstance(error, ProviderError):
        lines = [f"{path}:{(line or 0) + 1}: {error.verdict} (the oracle, not the subject): {error.message}"]
        lines += error.stderr.splitlines()[-20:]
    return "\n".join([*lines, f"case {case.id}, seed {case.seed}" if case else ""])


def _at_its_place(item: pytest.Item, report: pytest.TestReport, error: CaseSkipped) -> None:
    path, line, _ = item.location
    report.longrepr = (path, (line or 0) + 1, str(error))


def _fail(report: pytest.TestReport, words: str) -> None:
    report.outcome = "failed"
    report.longrepr = words
    report.__dict__.pop("wasxfail", None)


def _expectation(
    item: pytest.Item, when: str, error: BaseException | None, report: pytest.TestReport
) -> None:
    expected = item.stash.get(_FAILING, None)
    if expected is None:
        return
    if error is None:
        if when == expected.phase and not item.stash.get(_ENDS, {}):
            item.stash[_EXPECTED] = Verdict.XPASS
            _fail(report, f"XPASS: expected to fail ({expected.reason}), and does not: remove the xfail_case")
        return
    mismatch = _mismatch(expected, when, error)
    if mismatch is None and len(item.stash[_ENDS]) > 1:
        return  # an earlier phase has failed in another way: that is what the case came to
    if mismatch is None:
        item.stash[_EXPECTED] = Verdict.XFAIL
        report.outcome = "skipped"
        report.wasxfail = f"{expected.row}: {expected.reason} ({expected.owner})"
        return
    item.stash[_EXPECTED] = None
    item.stash[_ENDS][when] = NotAsExpected(mismatch, error)
    _fail(report, f"{mismatch}\n\n{report.longreprtext}")


def _mismatch(expected: Failing, when: str, error: BaseException) -> str | None:
    kinds = " or ".join(kind.__name__ for kind in expected.raises)
    wanted = f"xfail_case expects {kinds} in the phase {expected.phase}"
    if when != expected.phase:
        return f"{wanted}, got {type(error).__name__} in the phase {when}"
    if not isinstance(error, expected.raises):
        return f"{wanted}, got {type(error).__name__}"
    if _unjudged(error):
        return f"{wanted}, and nothing was judged: {error}"
    got = error.judged.verdict if isinstance(error, CaseFailed) else None
    if expected.verdict is not None and got is not expected.verdict:
        return f"xfail_case expects the verdict {expected.verdict}, got {got or type(error).__name__}"
    return None


def _unjudged(error: BaseException) -> bool:
    """Nobody could judge: that says nothing about the subject, so it cannot be what is expected of it."""
    if isinstance(error, CaseFailed):
        return (error.judged.verdict, error.judged.side) == (Verdict.NOT_RUN, Side.ORACLE)
    return isinstance(error, Unavailable) or (
        isinstance(error, ProviderError) and error.verdict is Verdict.NOT_RUN
    )


def _attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Evidence travels with the reports: from an xdist worker too."""
    case = case_of(item)
    if case is None:
        return
    if report.when == "setup":
        for name, value in _properties(case):
            item.user_properties.append((name, value))
        started = evidence_of(case, None, None)
        setattr(report, EVIDENCE, started.line())
    elif report.when == "teardown":
        state, error = item.stash.get(STATE, None), _error_of(item)
        failing_as, expected = item.stash.get(_FAILING, None), item.stash.get(_EXPECTED, None)
        debt = f"{failing_as.row} until {failing_as.expires}" if failing_as is not None else ""
        evidence = evidence_of(case, state, error, expected, debt)
        if evidence.verdict is Verdict.ERROR_RUN and (error is None or expected is Verdict.XFAIL):
            _fail(report, evidence.message)
        item.user_properties.append(("verdict", evidence.verdict.value))
        setattr(report, EVIDENCE, evidence.line())
    report.user_properties = list(item.user_properties)


def _properties(case: Case) -> list[tuple[str, str]]:
    return [
        ("case", case.id),
        ("rows", " ".join(case.rows)),
        ("dimension", case.dimension.value),
        ("backend", case.backend),
        ("seed", str(case.seed)),
    ]


def _error_of(item: pytest.Item) -> BaseException | None:
    """The first phase that failed decides, unless an expectation was not met. A skip hides no later failure."""
    ends = item.stash.get(_ENDS, {})
    if not all(isinstance(error, CaseSkipped) for error in ends.values()):
        ends = {phase: error for phase, error in ends.items() if not isinstance(error, CaseSkipped)}
    unmet = [error for error in ends.values() if isinstance(error, NotAsExpected)]
    if unmet:
        return unmet[0]
    return next((ends[phase] for phase in ("setup", "call", "teardown") if phase in ends), None)
