"""The roundings and sums that the quantizers are made of."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.common.numpy import quantize_steps as steps
from kernels.common.numpy.quantize_grid import grid_of
from kernels.tables import tables_of
from kernels.units import unit


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 64])
def test_a_sum_is_taken_in_pairs(n: int) -> None:
    rng = np.random.default_rng(n)
    terms = (rng.standard_normal((256, n)) * 1000.0 ** rng.integers(-2, 3, (256, n))).astype(np.float32)
    by_hand = np.zeros(n, np.float32)
    for term in terms:
        by_hand = by_hand + term
    np.testing.assert_array_equal(steps.ordered_sum(terms), by_hand)


@pytest.mark.parametrize("n", [1, 2])
def test_a_sum_of_minus_zeros_loses_its_start(n: int) -> None:
    terms = np.full((32, n), -0.0, np.float32)
    assert not np.signbit(steps.ordered_sum(terms)).any()
    assert np.signbit(steps.ordered_sum(terms, from_zero=False)).all()


def test_a_half_is_rounded_to_the_wrong_side() -> None:
    values = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388607.5], np.float32)
    assert steps.round_half_away(values).tolist() == [1, -1, 2, 3, -3, 0, 0, 8388608]
    assert steps.nearest_int(values[:-1]).tolist() == [0, 0, 2, 2, -2, 0, 0]


def test_a_number_that_does_not_fit_becomes_another_integer() -> None:
    values = np.array([2147483520, 2147483648, -2147483648, np.nan, np.inf, -np.inf, -1.9], np.float32)
    least = -(2**31)
    assert steps.truncated(values).tolist() == [2147483520, least, least, least, least, least, -1]


def test_a_nan_is_stored_as_an_infinity() -> None:
    values = np.array([0x7F800001, 0xFFFFFFFF, 0x7F800000], np.uint32).view(np.float32)
    assert steps.to_half(values).view(np.uint16).tolist() == [0x7E00, 0xFE00, 0x7C00]


@pytest.mark.parametrize(
    ("encoding", "wanted"),
    [("iq2_xxs", 2), ("iq2_xs", 2), ("iq2_s", 1), ("iq3_xxs", 2), ("iq3_s", 3), ("iq1_s", 3)],
)
def test_a_row_outside_the_table_has_other_neighbours(encoding: str, wanted: int) -> None:
    """Against the definition, one row at a time: the table's rows at the smallest distances, nearest first."""
    grid = grid_of(tables_of(unit(f"ggml.{encoding}"))["grid"], wanted)
    rng = np.random.default_rng(3)
    k = grid.k
    for number in rng.integers(0, grid.levels**k, 200):
        codes = number // grid.levels ** np.arange(k) % grid.levels
        distance = ((grid.codes - codes) ** 2).sum(axis=1)
        if distance.min() == 0:
            assert grid.row[number] == distance.argmin()
            assert grid.count[number] == 0
            continue
        limit = np.unique(distance)[wanted - 1]
        order = np.argsort(distance, kind="stable")
        expected = order[distance[order] <= limit]
        assert grid.row[number] == -1
        assert grid.neighbours[: grid.count[number], number].tolist() == expected.tolist()
