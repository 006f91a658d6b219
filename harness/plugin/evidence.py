"""From how a case ended to its line of evidence."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.errors import BadInput, Unavailable
from harness.evidence.case import Case
from harness.evidence.code_hash import Read, code_hash_of, relative_files
from harness.evidence.record import Evidence
from harness.plugin.verdict import CaseFailed, CaseSkipped, NotAsExpected, NotJudged, State
from harness.text import printable
from harness.verdicts import EXPECTED, Side, Verdict
from oracles.worker_process import ProviderError

MESSAGE_LIMIT = 1000
_OF_THE_CASE = (
    *("case", "family", "op", "encoding", "backend", "dimension", "rows", "seed", "bound", "code_hash"),
)


def evidence_of(
    case: Case,
    state: State | None,
    error: BaseException | None,
    expected: Verdict | None = None,
    debt: str = "",
) -> Evidence:
    """What `case` came to: its judgement, or how it ended instead. `expected` is XFAIL or XPASS where one applies.

    `debt` is the row in whose debt an expected failure stands, and until when.

    Without a state it has not run (NOT_RUN).
    """
    fields: dict[str, Any] = {
        "case": case.id,
        "family": case.family,
        "op": case.op,
        "encoding": case.encoding,
        "backend": case.backend,
        "dimension": case.dimension,
        "rows": case.rows,
        "seed": case.seed,
        "bound": case.bound,
        "code_hash": hash_of(case),
    }
    fields |= _judgement(state)
    fields |= _end(state, error)
    if expected is Verdict.XPASS:
        fields |= {"verdict": expected, "message": "expected to fail, and does not", "skip": None}
    elif expected is Verdict.XFAIL and not isinstance(error, NotAsExpected):
        fields |= {"verdict": expected, "message": f"expected ({debt}): {fields['message']}", "skip": None}
    if fields["verdict"] in EXPECTED and (misfit := _other_bound(case, state)):
        fields |= {"verdict": Verdict.ERROR_RUN, "side": Side.SUBJECT, "message": misfit}
    fields["message"] = printable(fields["message"], MESSAGE_LIMIT)
    try:
        return Evidence(**fields)
    except ValidationError as problem:
        # What the verdict says and what it carries do not fit: it is no evidence of anything.
        message = f"no evidence, {problem.errors(include_url=False)[0]['msg']}: {fields['message']}"
        kept = {name: fields[name] for name in _OF_THE_CASE if name in fields}
        return Evidence(**kept, verdict=Verdict.ERROR_RUN, message=printable(message, MESSAGE_LIMIT))


def _other_bound(case: Case, state: State | None) -> str:
    """The bound that was applied, where it is not the one that the family declares: then the declared one is untried."""
    if state is None or state.judged is None:
        return ""
    if case.bound and state.judged.bound.startswith(case.bound):
        return ""
    return f"judged under another bound ({state.judged.bound}) than the family's ({case.bound})"


def _judgement(state: State | None) -> dict[str, Any]:
    """What is known from the comparison, whatever the verdict."""
    if state is None or state.judged is None:
        return {}
    judged = state.judged
    return {
        "subject": state.subject,
        "kernel": state.kernel,
        "device": state.device,
        "judges": judged.judges,
        "bound": judged.bound,
        "elements": judged.comparison.checked,
        "diverged": judged.comparison.diverged,
        "max_abs": judged.comparison.max_abs,
        "max_ulp": judged.comparison.max_ulp,
        "error_over_bound": judged.error_over_bound,
        "worst": judged.worst,
        "upstream_bound_holds": state.upstream_bound_holds,
        "seconds": state.seconds,
    }


def _end(state: State | None, error: BaseException | None) -> dict[str, Any]:
    """Verdict, side and message: of the error that ended the case, else of the judgement."""
    if isinstance(error, CaseSkipped) and (state is None or state.judged is None):
        return {"verdict": Verdict.SKIP, "message": "", "skip": error.skip.record()}
    if isinstance(error, NotAsExpected):
        return _end(state, error.error) | {"message": str(error)}
    if isinstance(error, CaseFailed):
        return _words(error.judged.verdict, error.judged.side, error.judged.message)
    if isinstance(error, ProviderError):
        return _words(error.verdict, Side.ORACLE, error.message)
    if isinstance(error, Unavailable):
        return _words(Verdict.NOT_RUN, Side.ORACLE, str(error))
    if isinstance(error, NotJudged):
        return _words(Verdict.NOT_RUN, Side.SUBJECT, str(error))
    if error is not None:
        return _words(Verdict.ERROR_RUN, Side.SUBJECT, f"{type(error).__name__}: {error}")
    if state is None or state.judged is None:
        return _words(Verdict.NOT_RUN, Side.SUBJECT, "it has not ended")
    return _words(state.judged.verdict, state.judged.side, state.judged.message)


def _words(verdict: Verdict, side: Side, message: str) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "side": side,
        "message": message or ("" if verdict is Verdict.PASS else verdict),
    }


_READ = Read()
"""A session imports its code once: what was read stays what its cases ran with."""


def hash_of(case: Case) -> str:
    """The code hash of a case; empty when a file that defines it is not in the repository."""
    return _hash(case.op, case.encoding, case.backend, case.bound, case.files)


@functools.cache
def _hash(op: str, encoding: str | None, backend: str, bound: str, files: tuple[Path, ...]) -> str:
    try:
        return code_hash_of(
            op=op,
            encoding=encoding,
            backend=backend,
            bound=bound,
            files=relative_files(files),
            read=_READ,
        )
    except BadInput:
        return ""
