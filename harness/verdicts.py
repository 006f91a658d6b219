"""Verdicts: the words in which the harness answers, and the exit code that a set of answers ends in."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """One answer to one comparison or case."""

    PASS = "PASS"
    FAIL_SHAPE = "FAIL_SHAPE"
    FAIL_DTYPE = "FAIL_DTYPE"
    FAIL_NONFINITE = "FAIL_NONFINITE"
    FAIL_VALUE = "FAIL_VALUE"
    FAIL_OOB = "FAIL_OOB"
    FAIL_NONDET = "FAIL_NONDET"
    ERROR_BUILD = "ERROR_BUILD"
    ERROR_RUN = "ERROR_RUN"
    TIMEOUT = "TIMEOUT"
    SKIP = "SKIP"
    XFAIL = "XFAIL"
    XPASS = "XPASS"
    NOT_RUN = "NOT_RUN"
    ORACLE_DISAGREE = "ORACLE_DISAGREE"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"
    VOID = "VOID"


class Side(StrEnum):
    """Who a verdict that is not PASS speaks about: a fault of the oracle is never held against the subject."""

    SUBJECT = "subject"
    ORACLE = "oracle"


SPEED = frozenset({Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.AMBIGUOUS, Verdict.VOID})
"""Verdicts of a timed series, against the oracle's time for the same work (docs/bench.md)."""

PASSING = frozenset({Verdict.PASS, Verdict.FASTER, Verdict.SAME})
"""What was claimed is so."""

UNDECIDED = frozenset({Verdict.NOT_RUN, Verdict.AMBIGUOUS, Verdict.VOID})
"""Nothing is known: not run, or timed in a way that no figure comes from."""

EXPECTED = PASSING | {Verdict.SKIP, Verdict.XFAIL}
"""Verdicts that need no attention by themselves. A set made of SKIP and XFAIL alone still proves nothing."""

EXIT_OK = 0
EXIT_DIFFERENCE = 1
EXIT_BAD_INPUT = 2
EXIT_UNABLE = 3


def exit_code(verdicts: Iterable[tuple[Verdict, Side]]) -> int:
    """The process status for a set of verdicts, each with the side it speaks about.

    A difference or a finding (1) outranks work that could not be done (3). A set in which nothing ran is 3.
    """
    seen = list(verdicts)
    difference = unable = ran = False
    for verdict, side in seen:
        if verdict in UNDECIDED:
            unable = True
        elif verdict in EXPECTED:
            ran = ran or verdict in PASSING
        elif side is Side.ORACLE and verdict is not Verdict.ORACLE_DISAGREE:
            unable = True
        else:
            difference = True
    if difference:
        return EXIT_DIFFERENCE
    return EXIT_UNABLE if unable or not ran else EXIT_OK


def standing(verdict: Verdict, side: Side) -> Verdict:
    """The verdict as it counts for a level, a row or a run: what an oracle did wrong is no failure of the subject."""
    if side is Side.ORACLE and verdict.startswith("FAIL_"):
        return Verdict.ERROR_RUN
    return verdict


# Worst last: the verdict of a set is the last of these that occurs in it.
_ORDER = (
    Verdict.SKIP,
    Verdict.XFAIL,
    Verdict.PASS,
    Verdict.FASTER,
    Verdict.SAME,
    Verdict.NOT_RUN,
    Verdict.AMBIGUOUS,
    Verdict.VOID,
    Verdict.TIMEOUT,
    Verdict.ERROR_RUN,
    Verdict.ERROR_BUILD,
    Verdict.XPASS,
    Verdict.ORACLE_DISAGREE,
    Verdict.SLOWER,
    Verdict.FAIL_NONDET,
    Verdict.FAIL_VALUE,
    Verdict.FAIL_NONFINITE,
    Verdict.FAIL_DTYPE,
    Verdict.FAIL_SHAPE,
    Verdict.FAIL_OOB,
)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The one verdict that stands for a set; NOT_RUN for the empty set."""
    return max(verdicts, key=_ORDER.index, default=Verdict.NOT_RUN)
