"""Every rule by which evidence becomes a state, and all combinations of a small world."""

from __future__ import annotations

import itertools

import pytest

from harness.matrix.states import MEANINGS, Seen, State, cell_state, dimension_state, record_state
from harness.verdicts import EXPECTED, Verdict

PASSED = Seen({Verdict.PASS: 3})
FAILED = Seen({Verdict.PASS: 2, Verdict.FAIL_VALUE: 1})
SOME_SKIPPED = Seen({Verdict.PASS: 2, Verdict.SKIP: 1}, frozenset({"slow"}))
NO_DEVICE = Seen({Verdict.SKIP: 3}, frozenset({"hardware"}))
NO_ORACLE = Seen({Verdict.SKIP: 3}, frozenset({"missing_oracle"}))
OUTDATED = Seen({Verdict.PASS: 3}, outdated=True)
INCOMPLETE = Seen({Verdict.PASS: 3}, missing=True)
OVERDUE = Seen({Verdict.PASS: 2, Verdict.SKIP: 1}, frozenset({"slow"}), overdue=True)


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (PASSED, State.PASS),
        (FAILED, State.FAIL),
        (SOME_SKIPPED, State.DEBT),
        (NO_DEVICE, State.DEBT),
        (Seen({Verdict.PASS: 2, Verdict.XFAIL: 1}), State.DEBT),
        (OUTDATED, State.STALE),
        (INCOMPLETE, State.ABSENT),
        (OVERDUE, State.ABSENT),
        (Seen({}), State.ABSENT),
        (Seen({Verdict.PASS: 3}, missing=True, outdated=True), State.ABSENT),
        (Seen({Verdict.SKIP: 1}, frozenset({"slow"}), outdated=True), State.STALE),
        (Seen({Verdict.FAIL_OOB: 1}, outdated=True), State.FAIL),
        (Seen({Verdict.FAIL_OOB: 1}, missing=True), State.FAIL),
    ],
)
def test_one_record_shows_another_state(seen: Seen, state: State) -> None:
    assert record_state(seen, stand_in=False) is state


@pytest.mark.parametrize("verdict", [v for v in Verdict if v not in EXPECTED])
def test_a_verdict_that_is_neither_pass_nor_excused_is_less_than_a_failure(verdict: Verdict) -> None:
    assert record_state(Seen({Verdict.PASS: 99, verdict: 1}), stand_in=False) is State.FAIL


def test_a_stand_in_passes() -> None:
    assert record_state(PASSED, stand_in=True) is State.EMULATED
    assert cell_state([PASSED], stand_in=True) is State.EMULATED
    for seen, state in ((FAILED, State.FAIL), (SOME_SKIPPED, State.DEBT), (OUTDATED, State.STALE)):
        assert record_state(seen, stand_in=True) is state


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([], State.ABSENT),
        ([NO_DEVICE], State.DEBT),
        ([NO_DEVICE, PASSED], State.PASS),
        ([NO_DEVICE, OUTDATED], State.STALE),
        ([NO_DEVICE, FAILED], State.FAIL),
        ([NO_ORACLE, PASSED], State.PASS),
        ([PASSED, FAILED], State.FAIL),
        ([FAILED, PASSED], State.FAIL),
        ([PASSED, SOME_SKIPPED], State.PASS),
        ([SOME_SKIPPED, NO_DEVICE], State.DEBT),
        ([PASSED, OUTDATED], State.PASS),
        ([OUTDATED, PASSED], State.PASS),
        ([PASSED, Seen({Verdict.FAIL_OOB: 1}, outdated=True)], State.PASS),
        ([OUTDATED, Seen({Verdict.FAIL_OOB: 1}, outdated=True)], State.STALE),
        ([INCOMPLETE, OUTDATED], State.ABSENT),
        ([OVERDUE, PASSED], State.PASS),
    ],
)
def test_records_of_several_devices_show_another_state(records: list[Seen], state: State) -> None:
    assert cell_state(records, stand_in=False) is state


def test_a_machine_without_the_device_erases_what_a_device_showed() -> None:
    for shown in (PASSED, FAILED, SOME_SKIPPED, OUTDATED, INCOMPLETE):
        alone = cell_state([shown], stand_in=False)
        assert cell_state([NO_DEVICE, shown], stand_in=False) is alone
        assert cell_state([shown, NO_DEVICE], stand_in=False) is alone


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([], State.ABSENT),
        ([NO_DEVICE], State.DEBT),
        ([NO_DEVICE, PASSED], State.DEBT),
        ([NO_ORACLE, PASSED], State.DEBT),
        ([NO_DEVICE, FAILED], State.FAIL),
        ([NO_DEVICE, OUTDATED], State.STALE),
        ([PASSED, NO_DEVICE], State.PASS),
        ([PASSED, FAILED], State.PASS),
        ([FAILED, NO_DEVICE], State.FAIL),
    ],
)
def test_a_pass_on_the_cpu_outlives_a_run_that_skipped_it_for_want_of_hardware(
    records: list[Seen], state: State
) -> None:
    assert cell_state(records, stand_in=False, everywhere=True) is state


def worlds() -> list[Seen]:
    """Every record that can be made of a pass, a failure, two kinds of skip and the three flags."""
    found = []
    for verdicts in itertools.product((0, 2), repeat=3):
        counts = {
            verdict: count
            for verdict, count in zip((Verdict.PASS, Verdict.FAIL_VALUE, Verdict.SKIP), verdicts, strict=True)
            if count
        }
        kinds = [frozenset({"hardware"}), frozenset({"slow"})] if Verdict.SKIP in counts else [frozenset()]
        for kind, missing, outdated, overdue in itertools.product(kinds, *((False, True),) * 3):
            found.append(Seen(counts, frozenset(kind), missing, outdated, overdue))
    return found


def test_pass_is_shown_without_a_current_complete_record_in_which_all_passed() -> None:
    records = worlds()
    assert len(records) == 96
    for pair in itertools.chain(((one,) for one in records), itertools.product(records, records)):
        state = cell_state(pair, stand_in=False)
        sound = [
            not (seen.missing or seen.outdated or seen.overdue) and set(seen.verdicts) == {Verdict.PASS}
            for seen in pair
        ]
        current_failure = any(
            Verdict.FAIL_VALUE in seen.verdicts and not (seen.missing or seen.outdated or seen.overdue)
            for seen in pair
        )
        assert (state is State.PASS) == (any(sound) and not current_failure), pair
        assert not current_failure or state is State.FAIL, pair
        assert state not in (State.EMULATED, State.NOT_APPLICABLE)


ORDER = (State.PASS, State.EMULATED, State.DEBT, State.STALE, State.ABSENT, State.FAIL)


def test_a_dimension_shows_better_than_its_worst_required_backend() -> None:
    for states in itertools.product(ORDER, repeat=3):
        assert dimension_state(states) is ORDER[max(map(ORDER.index, states))]


def test_an_optional_backend_lowers_a_dimension_by_anything_but_a_failure() -> None:
    for required, optional in itertools.product(ORDER, ORDER):
        wanted = State.FAIL if State.FAIL in (required, optional) else required
        assert dimension_state([required], [optional]) is wanted


def test_a_dimension_without_backends_shows_pass() -> None:
    assert dimension_state([]) is State.NOT_APPLICABLE


def test_a_state_has_no_explanation() -> None:
    assert set(MEANINGS) == set(State)
