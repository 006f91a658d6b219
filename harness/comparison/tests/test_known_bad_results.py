"""Results that are wrong in the ways known from the field. Each must go red in its own class, for the reason named."""

from __future__ import annotations

import numpy as np
import pytest

from harness.comparison.accumulate import Accumulator, compare, ulp_distance
from harness.comparison.bounds import BIT_EXACT, Bound, dot_product_bound
from harness.verdicts import Verdict

LOOSE = Bound(1e-2, "a bound so wide that only a real fault is outside")


def reference(rows: int = 64, columns: int = 256, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize("bound", [BIT_EXACT, LOOSE], ids=["bits", "loose"])
class TestNonFinite:
    def test_nan_in_the_output_is_not_inside_any_bound(self, bound):
        wanted = reference()
        got = wanted.copy()
        got[3, 40] = np.nan
        found = compare(got, wanted, bound, 32)
        assert found.verdict is Verdict.FAIL_NONFINITE
        assert (found.worst.place.row, found.worst.place.block, found.worst.place.lane) == (3, 1, 8)
        assert found.smallest_passing_bound == np.inf

    def test_nan_in_the_reference_only_is_a_difference(self, bound):
        wanted = reference()
        got = wanted.copy()
        wanted[0, 0] = np.nan
        assert compare(got, wanted, bound, 32).verdict is Verdict.FAIL_NONFINITE

    def test_whole_output_nan(self, bound):
        found = compare(np.full((4, 32), np.nan, np.float32), reference(4, 32), bound, 32)
        assert found.verdict is Verdict.FAIL_NONFINITE
        assert found.diverged == 128

    def test_sign_flip_of_one_infinity(self, bound):
        wanted = reference()
        wanted[5, 5] = np.inf
        got = wanted.copy()
        got[5, 5] = -np.inf
        found = compare(got, wanted, bound, 32)
        assert found.verdict is Verdict.FAIL_NONFINITE
        assert found.worst.place.index == 5 * 256 + 5

    def test_infinity_where_a_number_was_wanted(self, bound):
        wanted = reference()
        got = wanted.copy()
        got[1, 1] = np.inf
        assert compare(got, wanted, bound, 32).verdict is Verdict.FAIL_NONFINITE

    def test_equal_nan_masks_and_infinities_pass_whatever_the_payload(self, bound):
        wanted = reference()
        wanted[2, :4] = [np.nan, np.inf, -np.inf, np.nan]
        got = wanted.copy()
        got.view(np.uint32)[2, 0] = 0xFFC12345
        assert compare(got, wanted, bound, 32).verdict is Verdict.PASS


def test_overflow_to_infinity_inside_an_error_sum_cannot_hide_a_fault():
    wanted = np.full((2, 32), 1e30, np.float32)
    got = -wanted
    with np.errstate(over="ignore"):
        assert not np.isfinite(np.square(got - wanted)).any()
    assert compare(got, wanted, LOOSE, 32).verdict is Verdict.FAIL_VALUE


def test_last_row_of_4096_zero_passes_a_mean_and_fails_here():
    wanted = reference(4096, 64)
    got = wanted.copy()
    got[-1] = 0
    assert (
        np.square(got - wanted).sum() / np.square(wanted).sum() < 5e-4
    )  # what a normalised mean would have let through
    found = compare(got, wanted, LOOSE, 32)
    assert found.verdict is Verdict.FAIL_VALUE
    assert found.worst.place.row == 4095


def test_one_column_of_9472_zero():
    wanted = reference(8, 9472)
    got = wanted.copy()
    got[:, 4711] = 0
    assert (
        np.abs(got - wanted).mean() / np.abs(wanted).mean() < 0.04
    )  # the mean ratio of an engine's own check
    found = compare(got, wanted, LOOSE, 1)
    assert found.verdict is Verdict.FAIL_VALUE
    assert found.worst.place.column == 4711


def test_four_percent_of_the_elements_at_a_million():
    wanted = reference(100, 100)
    got = wanted.copy()
    got[:4] = 1e6
    found = compare(got, wanted, LOOSE, 1)
    assert found.verdict is Verdict.FAIL_VALUE
    assert found.diverged == 400


def test_one_block_of_128_zero():
    wanted = reference(1, 128 * 32)
    got = wanted.copy()
    got[0, 77 * 32 : 78 * 32] = 0
    found = compare(got, wanted, BIT_EXACT, 32)
    assert found.verdict is Verdict.FAIL_VALUE
    assert found.worst.place.block == 77


def test_last_element_stale():
    wanted = reference()
    got = wanted.copy()
    got[-1, -1] = got[-1, -2]
    found = compare(got, wanted, BIT_EXACT, 32)
    assert found.verdict is Verdict.FAIL_VALUE
    assert found.diverged == 1
    assert found.worst.place.index == wanted.size - 1


def test_every_scale_one_percent_too_large():
    wanted = reference()
    assert compare(wanted * np.float32(1.01), wanted, BIT_EXACT, 32).verdict is Verdict.FAIL_VALUE


def test_sign_flipped_block():
    wanted = reference()
    got = wanted.copy()
    got[9, 32:64] *= -1
    found = compare(got, wanted, BIT_EXACT, 32)
    assert (found.verdict, found.diverged) == (Verdict.FAIL_VALUE, 32)


def test_minus_zero_is_not_plus_zero_bit_for_bit():
    wanted = np.zeros((1, 32), np.float32)
    got = wanted.copy()
    got[0, 3] = -0.0
    found = compare(got, wanted, BIT_EXACT, 32)
    assert found.verdict is Verdict.FAIL_VALUE
    assert (found.max_abs, found.max_ulp) == (0.0, 1)
    assert compare(got, wanted, LOOSE, 32).verdict is Verdict.PASS


def test_all_negative_reference_against_zeros():
    wanted = -np.abs(reference()) - 1
    assert compare(np.zeros_like(wanted), wanted, LOOSE, 32).verdict is Verdict.FAIL_VALUE


def test_empty_tensor_is_not_a_pass():
    empty = np.zeros((0, 32), np.float32)
    assert compare(empty, empty, BIT_EXACT, 32).verdict is Verdict.NOT_RUN


def test_a_broadcastable_shape_is_still_the_wrong_shape():
    wanted = reference()
    assert compare(wanted[:1], wanted, LOOSE, 32).verdict is Verdict.FAIL_SHAPE
    assert compare(wanted.reshape(-1), wanted, LOOSE, 32).verdict is Verdict.FAIL_SHAPE


def test_equal_values_in_another_dtype():
    wanted = np.ones((2, 32), np.float32)
    assert compare(wanted.astype(np.float64), wanted, LOOSE, 32).verdict is Verdict.FAIL_DTYPE


def test_a_result_that_stops_early_is_not_a_pass():
    wanted = reference(2, 32)
    accumulator = Accumulator(wanted.shape, BIT_EXACT, 32)
    accumulator.feed(wanted[0], wanted[0])
    assert accumulator.result().verdict is Verdict.FAIL_SHAPE


def test_pieces_give_the_verdict_of_the_whole():
    wanted = reference(16, 64)
    got = wanted.copy()
    got[7, 13] += 0.25
    got[12, 50] -= 0.5
    accumulator = Accumulator(wanted.shape, BIT_EXACT, 32)
    for row in range(16):
        accumulator.feed(got[row], wanted[row])
    assert accumulator.result() == compare(got, wanted, BIT_EXACT, 32)
    place = accumulator.result().worst.place
    assert (place.row, place.column, place.block, place.lane) == (12, 50, 1, 18)


def test_a_nan_bound_is_refused_not_ignored():
    with pytest.raises(ValueError, match="finite"):
        Bound(float("nan"), "nonsense")


def test_the_worst_element_is_worst_against_its_own_bound():
    wanted = np.zeros((1, 4), np.float32)
    got = np.array([[0.5, 0.2, 0.0, 0.0]], np.float32)
    found = compare(got, wanted, Bound(np.array([[0.4, 0.01, 1, 1]]), "per element"), 4)
    assert found.diverged == 2
    assert found.worst.place.column == 1
    assert found.worst.bound == 0.01
    assert found.smallest_passing_bound == 0.5


def test_dot_product_bound_holds_for_float32_and_catches_one_dropped_term():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 5, 512)).astype(np.float32)
    exact = (a.astype(np.float64) * b).sum(axis=1)
    bound = dot_product_bound(512, np.abs(a.astype(np.float64) * b).sum(axis=1), 2.0**-24)
    got = (a * b).sum(axis=1)
    assert compare(got, exact.astype(np.float32), bound).verdict is Verdict.PASS
    dropped = (a[:, :-1] * b[:, :-1]).sum(axis=1)
    assert compare(dropped, exact.astype(np.float32), bound).verdict is Verdict.FAIL_VALUE


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ulp_distance_counts_representable_values(dtype):
    one = np.ones(1, dtype)
    assert ulp_distance(one, np.nextafter(one, dtype(2)))[0] == 1
    assert ulp_distance(np.array([-0.0], dtype), np.array([0.0], dtype))[0] == 1
    tiny = np.nextafter(dtype(0), dtype(1), dtype=dtype)
    assert ulp_distance(np.array([-tiny]), np.array([tiny]))[0] == 3
