"""Skips and expected failures as data: what they must say, and what is refused. `docs/skips.md` states the rules."""

from __future__ import annotations

import datetime
import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from harness.errors import UsageProblem
from harness.evidence.case import Case
from harness.evidence.record import Skip
from harness.plugin.conditions import CONDITIONS
from harness.rows.load import row
from harness.verdicts import EXPECTED, Verdict

KINDS: tuple[str, ...] = get_args(Skip.model_fields["kind"].annotation)
PHASES = ("setup", "call", "teardown")
MAY_STAY = frozenset({"hardware", "platform", "upstream_limit"})
"""Kinds that need no date: nothing that we do makes them go away."""
LONGEST = datetime.timedelta(days=366)

MOST_TYPES = 3
"""Exception types that one expected failure may name."""

LEAST_WORDS = 5
# A placeholder says that nobody looked; a vague word does not count towards the words that a reason needs.
PLACEHOLDERS = frozenset({"todo", "fixme", "xxx", "tbd", "wip", "hack"})
_VAGUE = """
    a an and at be broken bug bugs crash crashes currently disable disabled does doesnt error errors fail failing fails
    failure fix fixed flaky for in is issue it later moment need needs not now of on ok problem problems see sometimes
    still skip skipped temporarily temporary test tests the there this to unstable unsupported until works working
    wrong yet
"""
VAGUE = frozenset(_VAGUE.split())

_SKIP_FIELDS = frozenset({"row", "kind", "reason", "owner", "expires", "when", "cases"})
_XFAIL_FIELDS = frozenset(
    {"row", "phase", "raises", "reason", "owner", "expires", "when", "cases", "verdict"}
)
_OWNER = re.compile(r"^[A-Za-z0-9@][A-Za-z0-9@._/-]+$")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong about a skip or an expected failure: a stable code, and the words for a person."""

    code: str
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Skipping:
    """A skip that was checked. `row` is the row in whose debt it stands; `when` and `cases` narrow it."""

    row: str
    kind: str
    reason: str
    owner: str
    expires: str | None = None
    when: str = "always"
    cases: str = "*"

    def __post_init__(self) -> None:
        """However it was made: UsageProblem with everything that is wrong about it."""
        _refuse(skip_problems(vars(self)))

    def record(self) -> Skip:
        """As evidence keeps it."""
        return Skip.model_validate(
            {name: getattr(self, name) for name in ("row", "kind", "reason", "owner", "expires")}
        )


@dataclass(frozen=True)
class Failing:
    """An expected failure that was checked: in this phase, with one of these exceptions, or the case is red."""

    row: str
    phase: str
    raises: tuple[type[BaseException], ...]
    reason: str
    owner: str
    expires: str
    when: str = "always"
    cases: str = "*"
    verdict: Verdict | None = None


def skipping(values: Mapping[str, Any]) -> Skipping:
    """The skip that these keywords describe. Raises UsageProblem with everything that is wrong about them."""
    _refuse(skip_problems(values))
    return Skipping(**values)


def failing(values: Mapping[str, Any]) -> Failing:
    """The expected failure that these keywords describe. Raises UsageProblem with everything that is wrong."""
    _refuse(xfail_problems(values))
    raises = values["raises"]
    verdict = values.get("verdict")
    checked = dict(values) | {"raises": raises if isinstance(raises, tuple) else (raises,)}
    return Failing(**checked | {"verdict": None if verdict is None else Verdict(verdict)})


def applies(expected: Skipping | Failing, case: Case | None) -> bool:
    """Whether it is about this case (None: a test without one), and its condition holds."""
    return (case is None or covers(expected, case)) and CONDITIONS[expected.when]()


def covers(expected: Skipping | Failing, case: Case) -> bool:
    """Whether it is about this case, whatever its condition."""
    return expected.row in case.rows and fnmatch.fnmatchcase(case.id, expected.cases)


def skip_misfit(skip: Skipping, case: Case) -> str | None:
    """Why a skip cannot be about this case, or None."""
    if skip.row not in case.rows:
        return f"skip_case: {case.id} does not belong to {skip.row}"
    if skip.kind == "hardware" and case.backend == "cpu":
        return f"skip_case: {case.id} runs on the cpu, which no machine lacks: kind hardware does not fit"
    return None


def skip_problems(values: Mapping[str, Any]) -> list[Problem]:
    """What is wrong about the keywords of a skip; empty when nothing is."""
    found = _unknown(values, _SKIP_FIELDS) + _common(values)
    kind = values.get("kind")
    if kind not in KINDS:
        found.append(_other(f"kind {kind!r}: wanted one of {', '.join(KINDS)}"))
    if values.get("expires") is None and kind in KINDS and kind not in MAY_STAY:
        found.append(_other(f"no expiry: a skip of kind {kind} ends on a date (expires='YYYY-MM-DD')"))
    return found


def xfail_problems(values: Mapping[str, Any]) -> list[Problem]:
    """What is wrong about the keywords of an expected failure; empty when nothing is."""
    return _unknown(values, _XFAIL_FIELDS) + _common(values) + [_other(words) for words in _ways(values)]


def _ways(values: Mapping[str, Any]) -> list[str]:
    """What is wrong about the way in which it is expected to fail, and until when."""
    found = []
    if values.get("phase") not in PHASES:
        found.append(f"phase {values.get('phase')!r}: wanted one of {', '.join(PHASES)}")
    raises = values.get("raises")
    kinds = raises if isinstance(raises, tuple) else (raises,)
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        found.append(f"raises {raises!r}: wanted the exception type that it fails with")
    elif {Exception, BaseException} & set(kinds):
        found.append("raises Exception: any failure would fit; name the type that is expected")
    elif len(kinds) > MOST_TYPES:
        found.append(f"raises {len(kinds)} types: more than {MOST_TYPES} say that nobody knows how it fails")
    else:
        names = {kind.__name__ for kind in kinds}
        if "NotJudged" in names:
            found.append("raises NotJudged: a test that judges nothing is no expected failure")
        if "CaseFailed" in names and values.get("verdict") is None:
            found.append("no verdict: CaseFailed wants the verdict that is expected (verdict='FAIL_VALUE')")
    if values.get("expires") is None:
        found.append("no expiry: an expected failure ends on a date (expires='YYYY-MM-DD')")
    if values.get("verdict") is not None and values["verdict"] not in set(Verdict):
        found.append(f"verdict {values['verdict']!r}: there is no such verdict")
    elif values.get("verdict") in {*EXPECTED, Verdict.XPASS, Verdict.NOT_RUN}:
        found.append(f"verdict {values['verdict']}: it is no way of failing")
    return found


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise UsageProblem("; ".join(map(str, problems)))


def _other(words: str) -> Problem:
    return Problem("bad-expectation", words)


def _unknown(values: Mapping[str, Any], known: frozenset[str]) -> list[Problem]:
    return [
        _other(f"unknown keyword {name!r}: wanted {', '.join(sorted(known))}")
        for name in values
        if name not in known
    ]


def _common(values: Mapping[str, Any]) -> list[Problem]:
    found = []
    try:
        row(str(values.get("row")))
    except UsageProblem as problem:
        found.append(Problem("unknown-row", str(problem)))
    found += [Problem("vague-reason", words) for words in reason_problems(values.get("reason"))]
    if not isinstance(owner := values.get("owner"), str) or not _OWNER.match(owner):
        found.append(
            Problem("no-owner", f"owner {owner!r}: wanted who looks after it, a handle or an address")
        )
    if values.get("expires") is not None:
        found += _expiry(values["expires"])
    if (when := values.get("when", "always")) not in CONDITIONS:
        found.append(_other(f"condition {when!r}: wanted one of {', '.join(CONDITIONS)}"))
    if not isinstance(values.get("cases", "*"), str):
        found.append(_other(f"cases {values['cases']!r}: wanted a glob over case IDs"))
    return found


def reason_problems(reason: object) -> list[str]:
    """What keeps `reason` from saying anything, in words; empty when it does."""
    if not isinstance(reason, str) or not reason.strip():
        return ["no reason: wanted a sentence that says what is missing"]
    words = re.findall(r"[\w.#+-]+", reason.lower().replace("'", ""))
    if placeholder := next((word for word in words if word.strip(".") in PLACEHOLDERS), None):
        return [f"vague reason {reason!r}: {placeholder!r} says that nobody has looked yet"]
    telling = [word for word in words if word not in VAGUE]
    if len(words) < LEAST_WORDS or len(telling) < 3:
        return [
            f"vague reason {reason!r}: wanted at least {LEAST_WORDS} words, three of which say what is missing"
        ]
    return []


def _expiry(expires: object) -> list[Problem]:
    try:
        day = datetime.date.fromisoformat(str(expires))
    except ValueError:
        return [_other(f"expires {expires!r}: wanted a date, YYYY-MM-DD")]
    today = datetime.date.today()
    if day < today:
        return [Problem("expired", f"expired on {day}: look at it again, then remove it or say why it stays")]
    if day - today > LONGEST:
        return [_other(f"expires {day}: more than a year ahead is no expiry")]
    return []
