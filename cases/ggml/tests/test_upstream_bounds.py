"""The planted faults: ours sees each of them, and the page about what upstream's bounds let through is current."""

from __future__ import annotations

import pytest

from cases.ggml.quantize_fns import IN_UPSTREAM
from cases.ggml.upstream_bounds import FAULTS, PAGE, Found, everything, page
from harness.verdicts import Verdict
from oracles.pool import Pool


@pytest.fixture(scope="module")
def found(oracle_pool: Pool) -> list[Found]:
    return everything(oracle_pool.get("llama_cpp.ops"))


@pytest.mark.parametrize("fault", [fault.name for fault in FAULTS])
def test_our_bound_lets_a_fault_through(fault: str, found: list[Found]) -> None:
    planted = [entry for entry in found if entry.fault == fault]
    assert planted, "no encoding can have it: it proves nothing"
    assert [entry.encoding for entry in planted if entry.ours is Verdict.PASS] == []


def test_an_encoding_goes_without_faults(found: list[Found]) -> None:
    assert {entry.encoding for entry in found} == IN_UPSTREAM


def test_one_zero_block_of_128_is_no_longer_the_example(found: list[Found]) -> None:
    """The known hole: Q8_0 with one block zero, or with all scales 1 % too large, passes upstream."""
    known = {"zero block", "scales +1 %"}
    assert {entry.fault for entry in found if entry.encoding == "ggml.q8_0" and not entry.upstream} >= known


def test_the_page_says_something_else_than_the_engine(found: list[Found]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(found), "python -m cases.ggml.upstream_bounds"
