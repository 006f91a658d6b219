"""Tests that assert nothing: they stay green whatever the code does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.audit.assertions import Assertions
from harness.audit.project import Module, tests_of
from harness.plugin.findings import Finding

CODE = "no-assertion"


def find(modules: Iterable[Module], assertions: Assertions) -> Iterator[Finding]:
    """One finding a test in which nothing asserts: no `assert`, no `pytest.raises`, no verdict, no call of a function
    that does. `assert True` is none."""
    for module in modules:
        for test in tests_of(module):
            if not assertions.function(test):
                words = f"{test.name} asserts nothing: it is green whatever the code does"
                yield Finding(CODE, module.file, test.node.lineno, words)
