"""The inventory in the form in which a tree is compared with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from harness.paths import REPOSITORY
from harness.rows.strict_yaml import read_mapping, validated
from harness.upstream.found import FoundAxis, FoundCheck, FoundFile, FoundTest
from harness.upstream.values import canonical

if TYPE_CHECKING:
    from cases.upstream.inventory import Axis, Bound, Check, Inventory, UpstreamTest

CPP = REPOSITORY / "cases" / "upstream" / "cpp_facts.yaml"
COUNTED = ("structural", "bit_exact")
"""Kinds of check of which only the number is written down."""


class CppTest(BaseModel):
    """What a C++ test's source says: digest of its text, checks that compare with a number, and facts by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    line: int = Field(ge=1)
    digest: str
    checks: tuple[str, ...] | None = None
    facts: dict[str, str] = {}


class CppFile(BaseModel):
    """The C++ tests of one file of the inventory, and the constants and enumerations of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    constants: dict[str, str] = {}
    tests: dict[str, CppTest]


class _CppFacts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    engines: dict[str, dict[str, CppFile]]


@cache
def cpp_facts(path: Path = CPP) -> dict[str, dict[str, CppFile]]:
    """Engine -> path -> what its C++ says. BadInput with the field when the file is not what it should be."""
    return validated(_CppFacts, read_mapping(path), file=path).engines


def known_files(inventory: Inventory) -> dict[str, FoundFile]:
    """Path -> the tests of the inventory; for C++ with what was read from its source."""
    facts = cpp_facts().get(inventory.engine, {})
    found = {}
    for file in inventory.files:
        cpp = facts.get(file.path)
        tests = tuple(_test(test, cpp) for test in file.tests)
        found[file.path] = FoundFile(file.path, tests, tuple(cpp.constants.items()) if cpp else ())
    return found


def _test(test: UpstreamTest, file: CppFile | None) -> FoundTest:
    cpp = file.tests.get(test.name) if file else None
    if cpp is not None:
        checks = tuple(FoundCheck("predicate", text) for text in cpp.checks or ())
        return FoundTest(
            test.name,
            cpp.line,
            axes=None,
            checks=checks,
            digest=cpp.digest,
            facts=tuple(cpp.facts.items()),
            counted=test.cases,
        )
    return FoundTest(
        name=test.name,
        line=test.line,
        axes=tuple(_axis(axis) for axis in test.axes),
        checks=tuple(found_checks(test.checks)) if test.checks else None,
        always_skipped=test.always_skipped,
        counted=test.cases,
        digest=test.digest,
    )


def _axis(axis: Axis) -> FoundAxis:
    if axis.values is not None:
        rows = tuple(
            tuple(map(canonical, value))
            if len(axis.names) > 1 and isinstance(value, list)
            else (canonical(value),)
            for value in axis.values
        )
    elif axis.product_of is not None:
        rows = tuple(tuple(map(canonical, row)) for row in itertools.product(*axis.product_of.values()))
    else:
        return FoundAxis(axis.names, None, axis.count)
    return FoundAxis(axis.names, rows, axis.count)


def found_checks(checks: tuple[Check, ...]) -> Iterator[FoundCheck]:
    """The inventory's checks, each as often as it is counted."""
    for check in checks:
        where = tuple((name, texts) for name, texts in check.where.items())
        yield from itertools.repeat(
            FoundCheck(check.kind, _bound(check), check.via or "", where), check.count or 1
        )


def _bound(check: Check) -> str:
    if check.kind in ("assert_close", "allclose"):
        given = (("rtol", check.rtol), ("atol", check.atol))
        return ", ".join(f"{name}={_number(value)}" for name, value in given if value is not None)
    if check.kind == "raises":
        return f"{check.exception}: {check.match}" if check.match else str(check.exception)
    return check.text or ""


def _number(value: Bound) -> str:
    return value if isinstance(value, str) else canonical(value)
