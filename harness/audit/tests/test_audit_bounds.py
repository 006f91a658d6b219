"""Bounds as numbers: what is comparable, and what must be counted as not."""

from __future__ import annotations

import pytest

from harness.audit.bound_terms import exact, terms
from harness.audit.bounds import find
from harness.audit.collected import CollectedAncestor, CollectedFamily
from harness.comparison.bounds import BIT_EXACT
from harness.rows.model import Dimension


def family(ours: str, theirs: str | None, **numbers: float) -> CollectedFamily:
    ancestor = CollectedAncestor(engine="mlx", file="t.py", test="t", bound=theirs, **numbers)
    return CollectedFamily(
        name="toy",
        op="matmul",
        dimension=Dimension.COMPUTE,
        files=(),
        bound=ours,
        upstream=(ancestor,),
        reach=(),
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("rtol 1e-3", {"rtol": 1e-3}),
        ("atol=1e-5, rtol = .02", {"atol": 1e-5, "rtol": 0.02}),
        ("NMSE <= 5e-4", {"nmse": 5e-4}),
        ("max abs below 2^-10", {"max_abs": 2.0**-10}),
        ("atol 1/1.5/1.2 and rtol 1e-1/1e4/2e1 for f16/bf16/f32", {"atol": 1.5, "rtol": 1e4}),
        ("gamma_c(u=2^-24) * sum|a||b| + underflow", {}),
        ("|difference| / n below 1e-4", {}),
        ("same as test_mmq", {}),
        ("", {}),
    ],
)
def test_the_numbers_of_a_bound_are_read_wrong(text: str, wanted: dict[str, float]) -> None:
    assert terms(text) == wanted


def test_a_bound_of_the_same_bits_is_taken_for_a_formula() -> None:
    assert exact(BIT_EXACT.derivation)
    assert exact("the same fields")
    assert not exact("rtol 1e-3 on the same data")


@pytest.mark.parametrize(
    ("ours", "theirs", "loose", "compared"),
    [
        ("rtol 1e-2", "rtol 1e-3", 1, 1),
        ("rtol 1e-3", "rtol 1e-3", 0, 1),
        ("rtol 1e-4, atol 2", "rtol 1e-3, atol 1", 1, 1),
        ("the same bits", "what a person sees", 0, 1),
        ("rtol 1e-2", "atol 1e-3", 0, 0),
        ("gamma_k * sum|a||b|", "NMSE 5e-4", 0, 0),
    ],
)
def test_a_pair_that_nobody_can_compare_is_green(ours: str, theirs: str, loose: int, compared: int) -> None:
    found = find([family(ours, theirs)])
    assert (len(found.findings), found.compared, len(found.not_comparable)) == (loose, compared, 1 - compared)


def test_a_number_of_the_inventory_is_ignored() -> None:
    found = find([family("rtol 1e-2", None, rtol=1e-3)])
    assert [finding.message for finding in found.findings] == ["toy allows rtol 0.01, mlx's t (t.py) 0.001"]
