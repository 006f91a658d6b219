"""The fates of the upstream tests: each has one, none is an excuse, and what it points to exists."""

from __future__ import annotations

import pytest

from cases.upstream.inventory import FILES, load_all, load_inventory
from harness.paths import REPOSITORY
from harness.plugin.expectations import reason_problems
from harness.rows.load import load_rows

UNPORTED = {
    "vllm": {"ported": 0, "skipped": 281, "not_applicable": 182},
    "mlx": {"ported": 0, "skipped": 32, "not_applicable": 10},
    "mlx-lm": {"ported": 0, "skipped": 10, "not_applicable": 1},
}
"""What is left to port. A test that is ported moves a number here, and nothing else may."""


@pytest.mark.parametrize("engine", FILES)
def test_no_upstream_test_is_left_without_a_fate(engine: str):
    left = [
        (file.path, test.name)
        for file, test in load_inventory(engine).tests()
        if test.fate.state == "unaccounted"
    ]
    assert left == []


@pytest.mark.parametrize("engine", UNPORTED)
def test_a_debt_is_neither_forgotten_nor_forgiven(engine: str):
    states = [test.fate.state for _, test in load_inventory(engine).tests()]
    counts = {state: states.count(state) for state in UNPORTED[engine]}
    assert counts == UNPORTED[engine]
    assert sum(counts.values()) == len(states)


def test_no_reason_is_vague():
    for inventory in load_all():
        for file, test in inventory.tests():
            if test.fate.state in ("skipped", "not_applicable"):
                assert reason_problems(test.fate.reason) == [], (file.path, test.name)


def test_a_debt_stands_in_a_row_of_its_own_test():
    rows = load_rows()
    for inventory in load_all():
        for file, test in inventory.tests():
            if test.fate.state == "skipped":
                assert test.fate.row in test.rows, (file.path, test.name)
                assert test.fate.row in rows, (file.path, test.name)


def test_what_is_ported_is_where_it_says():
    for inventory in load_all():
        for file, test in inventory.tests():
            for place in test.fate.where:
                assert (REPOSITORY / place).is_file(), (file.path, test.name, place)


def test_what_upstream_always_skips_is_never_called_ported_without_a_note():
    for inventory in load_all():
        for file, test in inventory.tests():
            if test.always_skipped and test.fate.state == "ported":
                assert test.notes, (file.path, test.name)
