"""Holding the ledger's CPU lines against a fresh run: what a forged or outdated line looks like from there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.evidence.case import Case
from harness.evidence.ledger import HEAD, LEDGER, sha256
from harness.evidence.promote import promote
from harness.evidence.recompute import recompute_check
from harness.evidence.required import write_required
from harness.evidence.tests.made import (
    CASES,
    DECODE,
    PRODUCT,
    Q4_K,
    commit,
    evidence,
    judges,
    make_run,
    on,
    passing,
)
from harness.verdicts import Verdict


def test_a_claim_that_holds_is_not_confirmed(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    found = recompute_check(make_run(tree, passing(tree, on("cpu"))), tree)
    assert (found.confirmed, found.failed, found.stale, found.unclaimed, found.ok) == (2, (), (), (), True)


def test_a_pass_forged_with_its_chain_is_believed(tree: Path) -> None:
    failing = [evidence(case, tree, Verdict.FAIL_VALUE) for case in on("cpu") if Q4_K in case.rows]
    promote(make_run(tree, failing), tree)
    first, text = (tree / LEDGER).read_text().rstrip("\n").split("\n")
    data = {**json.loads(text.replace("FAIL_VALUE", "PASS")), "not_passed": {}}
    text = json.dumps(data, separators=(",", ":"))
    (tree / LEDGER).write_text(f"{first}\n{text}\n")
    (tree / HEAD).write_text(json.dumps({"schema": "harness-ledger/1", "lines": 2, "sha256": sha256(text)}))
    found = recompute_check(make_run(tree, failing), tree)
    (line,) = found.failed
    assert "line 2 says 3 PASS, the run 3 FAIL_VALUE" in line
    assert not found.ok


def test_a_failure_of_the_fresh_run_is_reported_as_agreement(tree: Path) -> None:
    failing = [evidence(case, tree, Verdict.FAIL_VALUE) for case in on("cpu")]
    promote(make_run(tree, failing), tree)
    found = recompute_check(make_run(tree, failing), tree)
    assert found.confirmed == 0
    assert len(found.failed) == 2


def test_a_claim_that_the_run_does_not_touch_is_confirmed(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    found = recompute_check(make_run(tree, passing(tree, on("cpu")[1:])), tree)
    (line,) = found.failed
    assert "was not recomputed: 1 case" in line
    assert not recompute_check(make_run(tree, []), tree).ok


def test_outdated_lines_fail_the_check(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    with (tree / "kernels" / "ggml" / "q4_k" / "reference.py").open("a") as stream:
        stream.write("#")
    found = recompute_check(make_run(tree, passing(tree, on("cpu"))), tree)
    assert [line.split()[0] for line in found.stale] == [Q4_K]
    assert (found.failed, found.confirmed, found.ok) == ((), 1, True)


def test_what_is_shown_and_not_claimed_is_lost(tree: Path) -> None:
    found = recompute_check(make_run(tree, passing(tree)), tree)
    assert len(found.unclaimed) == 2
    assert found.ok


def test_an_empty_ledger_fails_the_check(tree: Path) -> None:
    found = recompute_check(make_run(tree, passing(tree, on("triton@sm_90"))), tree)
    assert (found.claims, found.shown, found.ok) == (0, 0, True)
    failing = [evidence(case, tree, Verdict.FAIL_VALUE) for case in on("cpu")]
    assert not recompute_check(make_run(tree, failing), tree).ok


def test_claims_of_a_device_fail_the_check_of_a_machine_without_it(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    skipped = [evidence(case, tree, Verdict.SKIP) for case in CASES if case.backend != "cpu"]
    found = recompute_check(make_run(tree, [*passing(tree, on("cpu")), *skipped]), tree)
    assert (found.confirmed, found.failed, found.ok) == (2, (), True)


def night_of(tree: Path) -> list[Case]:
    """`PRODUCT` as a nightly family on the CPU, in the list of the tree's required cases."""
    night = dataclasses.replace(
        PRODUCT, name="test.night", backends=("cpu",), files=DECODE.files, nightly="a model takes minutes"
    )
    write_required([*CASES, *night.cases()], tree)
    commit(tree)
    return list(night.cases())


def test_a_cell_that_only_the_nightly_run_recomputes_fails_the_check(tree: Path) -> None:
    night = night_of(tree)
    promote(make_run(tree, [*passing(tree), *passing(tree, night)]), tree)
    found = recompute_check(make_run(tree, passing(tree)), tree)
    assert [line.split()[:2] for line in found.nightly] == [[Q4_K, "Compute"]]
    assert (found.confirmed, found.failed, found.ok) == (2, (), True)


def test_half_of_a_nightly_family_is_taken_for_none(tree: Path) -> None:
    night = night_of(tree)
    promote(make_run(tree, [*passing(tree), *passing(tree, night)]), tree)
    found = recompute_check(make_run(tree, [*passing(tree), *passing(tree, night[:1])]), tree)
    (line,) = found.failed
    assert "was not recomputed: 1 case" in line


def test_answers_from_the_memo_confirm_a_claim(tree: Path) -> None:
    remembered = judges()[0].model_copy(update={"live": False})
    run = make_run(tree, [evidence(case, tree, judges=(remembered,)) for case in CASES])
    with pytest.raises(BadInput, match="memo"):
        recompute_check(run, tree)
