"""Shards put together, and two runs side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import BadInput, UsageProblem
from harness.evidence.differences import LOSSES, Kind, changes
from harness.evidence.merge import merge
from harness.evidence.promote import promote
from harness.evidence.run import PINS, Code
from harness.evidence.tests.made import CASES, commit, evidence, make_run, passing, skip
from harness.verdicts import Verdict


def test_shards_show_less_together_than_one_run(tree: Path) -> None:
    shards = [
        make_run(
            tree, passing(tree, CASES[number::3]), shard=f"{number + 1}/3", environment={"machine": number}
        )
        for number in range(3)
    ]
    assert all(not promote(shard, tree).added for shard in shards)
    merged = merge(shards, tree / "results" / "runs")
    assert set(merged.evidence) == {case.id for case in CASES}
    assert [source.shard for source in merged.manifest.merged_from] == ["1/3", "2/3", "3/3"]
    assert merged.environment["merged"][shards[2].manifest.id] == {"machine": 2}
    assert len(promote(merged, tree).added) == 4


def test_a_shard_is_missing_or_counted_twice(tree: Path) -> None:
    first, third = (make_run(tree, [], shard=f"{number}/3") for number in (1, 3))
    with pytest.raises(UsageProblem, match="shard 2 of 3 is missing"):
        merge([first, third], tree)
    with pytest.raises(UsageProblem, match="twice"):
        merge([first, first], tree)
    with pytest.raises(UsageProblem, match="at least two"):
        merge([first], tree)
    with pytest.raises(UsageProblem, match="shards of 2 and of 3"):
        merge([first, make_run(tree, [], shard="2/2")], tree)
    with pytest.raises(BadInput, match="I/N"):
        merge([first, make_run(tree, [], shard="4/3")], tree)


def test_runs_of_different_code_or_pins_are_merged(tree: Path) -> None:
    first = make_run(tree, [])
    commit(tree)
    with pytest.raises(UsageProblem, match="differ in commit"):
        merge([first, make_run(tree, [])], tree)
    changed = Code(commit=first.manifest.code.commit, uncommitted=("kernels/x.py",))
    with pytest.raises(UsageProblem, match="differ in uncommitted files"):
        merge([first, make_run(tree, [], code=changed)], tree)
    other = make_run(tree, [], code=first.manifest.code)
    (other.path / PINS).write_text(json.dumps({"formats": {}}))
    with pytest.raises(UsageProblem, match="differ in pins"):
        merge([first, other], tree)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_failure_is_hidden_by_the_pass_of_another_shard(tree: Path, order: tuple[int, int]) -> None:
    runs = [
        make_run(tree, [evidence(CASES[0], tree)]),
        make_run(tree, [evidence(CASES[0], tree, Verdict.FAIL_NONDET)]),
    ]
    merged = merge([runs[number] for number in order], tree / "results" / "runs")
    assert merged.evidence[CASES[0].id].verdict is Verdict.FAIL_NONDET
    assert any("FAIL_NONDET is kept" in note for note in merged.notes)


def test_changes_between_two_runs_are_called_something_else(tree: Path) -> None:
    a, b, c, d, e, f, g = CASES[:7]
    before = make_run(
        tree,
        [
            *passing(tree, [a, b, c, d]),
            evidence(e, tree, Verdict.FAIL_VALUE),
            evidence(f, tree, max_abs=0.5),
        ],
    )
    after = make_run(
        tree,
        [
            evidence(a, tree, Verdict.FAIL_VALUE),
            evidence(b, tree, Verdict.SKIP, skip=skip(b)),
            evidence(d, tree, seconds=99.0),
            evidence(e, tree),
            evidence(f, tree, max_abs=0.25),
            evidence(g, tree),
        ],
    )
    found = {change.case: change.kind for change in changes(before, after)}
    assert found == {
        a.id: Kind.NEW_FAIL,
        b.id: Kind.LOST,
        c.id: Kind.GONE,
        e.id: Kind.FIXED,
        f.id: Kind.ERROR,
        g.id: Kind.NEW,
    }
    words = {change.case: change.words() for change in changes(before, after)}
    assert words[a.id] == "PASS -> FAIL_VALUE: made to be so"
    assert "max |err| 0.5" in words[f.id]
    assert "max |err| 0.25" in words[f.id]
    assert [change.kind in LOSSES for change in changes(before, after)] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert changes(before, before) == ()


def test_a_new_case_that_fails_is_only_new(tree: Path) -> None:
    after = make_run(tree, [evidence(CASES[0], tree, Verdict.TIMEOUT)])
    (change,) = changes(make_run(tree, []), after)
    assert change.kind is Kind.NEW_FAIL
