"""Which of an engine's tests the inventory is about: rules by path, name and content, each with its reason."""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from harness.errors import UsageProblem
from harness.paths import REPOSITORY
from harness.rows.strict_yaml import read_mapping, validated

PATH = REPOSITORY / "cases" / "upstream" / "scope.yaml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Strict):
    """Files by glob. `tests` of a file that is about other things too are those whose name or text matches it."""

    paths: tuple[str, ...] = Field(min_length=1)
    tests: str | None = None
    reason: str

    @field_validator("tests")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"a regular expression ({error})") from None
        return value

    def covers(self, path: str) -> bool:
        """Whether `path` is one of its files."""
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self.paths)

    def takes(self, name: str, text: str) -> bool:
        """Whether a test of that name and text is one of its tests."""
        return self.tests is None or re.search(self.tests, f"{name}\n{text}") is not None


class Scope(_Strict):
    """One engine's rules, in the order in which they are asked: `inside`, then `outside`, then `named`.

    A test file that no rule covers is inside when its path matches `named`, so that a new folder is seen.
    """

    methods: Literal["class", "plain"] = "class"
    loops: bool = Field(default=False, description="Loops over values are what the inventory calls axes.")
    tests: tuple[str, ...] = Field(min_length=1, description="Globs of what is a test file at all.")
    named: str = Field(description="A path that matches is about quantization.")
    inside: tuple[Rule, ...] = Field(min_length=1)
    outside: tuple[Rule, ...] = ()
    left_out: dict[str, str] = Field(
        default={}, description="`path: test` inside, and why the inventory lacks it."
    )
    symbols: dict[str, dict[str, tuple[str, ...]]] = Field(
        default={}, description="path -> the inventory's name of a test -> what it is called in the source."
    )

    def is_test(self, path: str) -> bool:
        """Whether it is one of the engine's test files."""
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self.tests)

    def rule(self, path: str) -> Rule | None:
        """The rule by which a test file is inside, or None."""
        for rule in self.inside:
            if rule.covers(path):
                return rule
        if self.outside_rule(path) is None and re.search(self.named, path):
            return Rule(paths=(path,), reason="its path names a quantized format, and no rule covers it yet")
        return None

    def outside_rule(self, path: str) -> Rule | None:
        """The rule that leaves a test file out, or None."""
        return next((rule for rule in self.outside if rule.covers(path)), None)


class _Scopes(_Strict):
    engines: dict[str, Scope]


@cache
def scopes(path: Path = PATH) -> dict[str, Scope]:
    """Engine -> scope. BadInput with the field when the file is not what it should be."""
    return validated(_Scopes, read_mapping(path), file=path).engines


def scope_of(engine: str) -> Scope:
    """The scope of one engine. UsageProblem for one that has none."""
    found = scopes().get(engine)
    if found is None:
        raise UsageProblem(f"no inventory of {engine!r}; there is one of {', '.join(scopes())}")
    return found
