"""What promotion refuses, what it leaves out, and what it writes."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
from pathlib import Path

import pytest

from harness.errors import BadInput, Unavailable, UsageProblem
from harness.evidence import promote as promote_module
from harness.evidence.claims import round_up
from harness.evidence.ledger import LEDGER, read_ledger
from harness.evidence.ledger_lines import OWN_PACKAGE
from harness.evidence.merge import merge
from harness.evidence.promote import Promotion, promote
from harness.evidence.required import FOLDER, load_required, write_required
from harness.evidence.run import Code, RunWriter, current_code, read_run
from harness.evidence.tests.made import (
    CASES,
    DECODE,
    IQ2_XXS,
    PRODUCT,
    Q4_K,
    commit,
    evidence,
    judges,
    make_run,
    on,
    passing,
    skip,
)
from harness.rows.model import Dimension
from harness.verdicts import Side, Verdict

M, C = Dimension.MATERIALIZE, Dimension.COMPUTE


def rows(done: Promotion) -> list[str]:
    return [record.cell[0] for record in done.added]


def refusal(tree: Path, run: object, kind: type[Exception]) -> str:
    """The message of a refused promotion, which must have left the ledger alone."""
    with pytest.raises(kind) as error:
        promote(run, tree)  # type: ignore[arg-type]
    assert not (tree / LEDGER).exists()
    return str(error.value)


def test_a_line_says_less_than_the_run_showed(tree: Path) -> None:
    run = make_run(tree, passing(tree, on("cpu")))
    done = promote(run, tree)
    assert rows(done) == [IQ2_XXS, Q4_K]
    assert done.blocked == ()
    source, _, line = (json.loads(text) for text in done.ledger.texts)
    assert (source["id"], source["run"], line["run"]) == (run.manifest.id, run.digest, run.digest)
    assert source["commit"] == run.manifest.code.commit
    assert source["pins"]["formats"]["worker"] == judges()[1].worker_sha256
    assert (line["row"], line["dimension"], line["backend"]) == (Q4_K, "Materialize", "cpu")
    assert line["verdicts"] == {"PASS": 3}
    assert (line["kernel"], line["device"]) == ("ggml.q4_k on cpu", "cpu")
    assert line["pins"] == ["formats", "llama_cpp.ops"]
    assert line["families"]["test.decode"]["cases"] == 3


def test_the_judges_of_one_cell_make_a_line_each_or_are_forgotten(tree: Path) -> None:
    formula = judges()[0].model_copy(update={"pin": "formula", "package": OWN_PACKAGE, "wheel_sha256": ""})
    first, second, third = [case for case in on("cpu") if Q4_K in case.rows]
    entries = [
        evidence(first, tree),
        evidence(second, tree, judges=(*judges(), formula)),
        evidence(third, tree, judges=judges()[:1]),
    ]
    (record,) = promote(make_run(tree, entries), tree).added
    assert [(line.pins, line.verdicts[Verdict.PASS]) for line in record.lines] == [
        (("formats", "formula", "llama_cpp.ops"), 2),
        (("llama_cpp.ops",), 1),
    ]


def test_judges_of_our_own_with_one_name_make_the_ledger_depend_on_their_order(tree: Path) -> None:
    formulas = [
        judges()[0].model_copy(
            update={
                "pin": "known",
                "package": OWN_PACKAGE,
                "wheel_sha256": "",
                "worker_sha256": str(number) * 64,
            }
        )
        for number in range(len(CASES))
    ]
    entries = [
        evidence(case, tree, judges=(*judges(), own)) for case, own in zip(CASES, formulas, strict=True)
    ]
    done = promote(make_run(tree, entries), tree)
    assert json.loads(done.ledger.texts[0])["pins"]["known"]["worker"] == ""
    assert not promote(make_run(tree, entries[::-1]), tree).added


def test_a_repeated_promotion_makes_the_file_grow(tree: Path) -> None:
    run = make_run(tree, passing(tree))
    promote(run, tree)
    before = (tree / LEDGER).read_bytes()
    again = promote(run, tree)
    other = promote(make_run(tree, passing(tree)), tree)
    assert (again.added, other.added) == ((), ())
    assert len(again.unchanged) == len(other.unchanged) == 4
    assert (tree / LEDGER).read_bytes() == before


def test_noise_in_the_third_digit_makes_the_file_grow(tree: Path) -> None:
    promote(make_run(tree, [evidence(case, tree, error_over_bound=0.1234) for case in CASES]), tree)
    assert not promote(
        make_run(tree, [evidence(case, tree, error_over_bound=0.1261) for case in CASES]), tree
    ).added
    assert promote(
        make_run(tree, [evidence(case, tree, error_over_bound=0.14) for case in CASES]), tree
    ).added


def test_rounding_understates_an_error() -> None:
    assert [round_up(x) for x in (0.0, 0.1234, 1.0, 1.01, 123.0, 5e-324)] == [
        0.0,
        0.13,
        1.0,
        1.1,
        130.0,
        5e-324,
    ]
    assert round_up(float("inf")) == float("inf")


@pytest.mark.parametrize(
    "name",
    [
        *("kernels/ggml/q4_k/reference.py", "cases/generators.py", "harness/new.py", "pyproject.toml"),
        *("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"),
    ],
)
def test_evidence_of_uncommitted_code_is_promoted(tree: Path, name: str) -> None:
    run = make_run(tree, passing(tree))
    with (tree / name).open("a") as stream:
        stream.write("#")
    assert name in refusal(tree, run, UsageProblem)
    run = make_run(tree, passing(tree))
    commit(tree)
    assert f"was made with uncommitted code ({name})" in refusal(tree, run, UsageProblem)


def test_a_removed_conftest_counts_as_committed(tree: Path) -> None:
    run = make_run(tree, passing(tree))
    (tree / "conftest.py").unlink()
    assert "uncommitted code: conftest.py" in refusal(tree, run, UsageProblem)


def test_a_run_that_has_not_ended_is_promoted(tree: Path) -> None:
    options = {"command": ("pytest",), "pins": {}, "environment": {}, "code": current_code(tree)}
    writer = RunWriter.create(tree / "results" / "runs", **options)  # type: ignore[arg-type]
    for entry in passing(tree):
        writer.append(entry)
    message = refusal(tree, read_run(writer.path), UsageProblem)
    assert f"pytest --resume {writer.id}" in message
    with pytest.raises(UsageProblem, match=r"merge: run .* has not ended"):
        merge([make_run(tree, []), read_run(writer.path)], tree / "results" / "runs")
    writer.close()
    assert len(promote(read_run(writer.path), tree).added) == 4


def test_a_required_list_that_is_not_committed_is_promoted(tree: Path) -> None:
    run = make_run(tree, passing(tree))
    (tree / FOLDER / "test.product.txt").unlink()
    assert "cases/required/test.product.txt" in refusal(tree, run, UsageProblem)


def test_files_that_evidence_does_not_depend_on_stop_a_promotion(tree: Path) -> None:
    (tree / "README.md").write_text("x")
    assert promote(make_run(tree, passing(tree)), tree).added


def test_a_run_from_outside_a_repository_is_promoted(tree: Path, tmp_path: Path) -> None:
    run = make_run(tree, passing(tree), code=Code(commit=None, uncommitted=()))
    assert "outside a git repository" in refusal(tree, run, UsageProblem)
    assert current_code(tmp_path) == Code(commit=None, uncommitted=())
    with pytest.raises(Unavailable, match="git"):
        promote(make_run(tree, passing(tree)), tmp_path)


def test_an_answer_from_the_memo_is_promoted(tree: Path) -> None:
    remembered = (judges()[0].model_copy(update={"live": False}), judges()[1])
    entries = [*passing(tree, CASES[1:]), evidence(CASES[0], tree, judges=remembered)]
    message = refusal(tree, make_run(tree, entries), BadInput)
    assert CASES[0].id in message
    assert "llama_cpp.ops, live" in message
    assert "--refresh" in message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": "0.0.1"}, "version was 0.0.1"),
        ({"package": "other"}, "package was other"),
        ({"wheel_sha256": "0" * 64}, "wheel was 00000000"),
        ({"wheel_sha256": ""}, "wheel was unknown"),
        ({"worker_sha256": "0" * 64}, "worker was 00000000"),
        ({"worker_sha256": ""}, "worker was unknown"),
        ({"pin": "llama_cpp.gone"}, "no pin llama_cpp.gone"),
    ],
)
def test_evidence_made_at_another_pin_is_promoted(tree: Path, change: dict[str, str], named: str) -> None:
    other = (judges()[0].model_copy(update=change), judges()[1])
    run = make_run(tree, [evidence(case, tree, judges=other) for case in CASES])
    message = refusal(tree, run, BadInput)
    if named == "wheel was unknown":
        assert "wheel" in message
    assert named.split()[0] in message
    assert CASES[0].id in message


def test_a_cell_with_a_case_missing_is_promoted(tree: Path) -> None:
    gone, *rest = on("cpu")
    done = promote(make_run(tree, passing(tree, rest)), tree)
    assert rows(done) == [IQ2_XXS]
    (left,) = done.blocked
    assert left.cell == (Q4_K, M, "cpu")
    assert left.reason == f"1 case ({gone.id}) without a verdict, of 3 required"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"verdict": Verdict.NOT_RUN}, "without an answer"),
        ({"verdict": Verdict.ERROR_RUN, "side": Side.ORACLE}, "without an answer"),
        ({"code_hash": "0" * 16}, "other code"),
        ({"code_hash": ""}, "other code"),
        ({"subject": "theirs.py"}, "subject 'theirs.py', which is not ours"),
        ({"device": "NVIDIA H200"}, "ran on 'NVIDIA H200'"),
        ({"rows": ("QUANT-GGUF-Q4_K", "QUANT-GGUF-Q5_K")}, "not in the list"),
    ],
)
def test_a_cell_with_a_verdict_that_shows_nothing_is_promoted(
    tree: Path, changes: dict[str, object], named: str
) -> None:
    cases = [case for case in on("cpu") if Q4_K in case.rows]
    entries = [evidence(cases[0], tree, **changes), *passing(tree, cases[1:])]  # type: ignore[arg-type]
    done = promote(make_run(tree, entries), tree)
    assert done.added == ()
    assert any(left.cell == (Q4_K, M, "cpu") and named in left.reason for left in done.blocked), done.blocked


def test_an_invented_case_counts(tree: Path) -> None:
    invented = evidence(on("cpu")[0], tree).model_copy(update={"case": "test.decode/ggml.q4_k/invented/cpu"})
    done = promote(make_run(tree, [*passing(tree, on("cpu")), invented]), tree)
    assert rows(done) == [IQ2_XXS]
    assert "invented/cpu) not in the list" in done.blocked[0].reason


def test_a_dispute_between_oracles_leaves_the_cell_as_it_was(tree: Path) -> None:
    cases = on("cpu")
    entries = [
        evidence(cases[0], tree, Verdict.ORACLE_DISAGREE, side=Side.ORACLE),
        *passing(tree, cases[1:]),
    ]
    counts = [record.verdicts for record in promote(make_run(tree, entries), tree).added]
    assert {Verdict.PASS: 2, Verdict.ORACLE_DISAGREE: 1} in counts


def test_a_cpu_cell_that_was_skipped_in_between_cannot_pass_again(tree: Path) -> None:
    cases = on("cpu")
    promote(make_run(tree, passing(tree, cases)), tree)
    promote(make_run(tree, [evidence(case, tree, Verdict.SKIP) for case in cases]), tree)
    assert rows(promote(make_run(tree, passing(tree, cases)), tree)) == [IQ2_XXS, Q4_K]


@pytest.mark.parametrize(
    ("family", "named"),
    [
        (dataclasses.replace(DECODE, rows=lambda _: ("QUANT-GGUF-Q9_K",)), "no such row; did you mean"),
        (
            dataclasses.replace(DECODE, rows=lambda _: ("QUANT-GGUF-PRESET-Q4_K",)),
            "alias of QUANT-GGUF-PRESET-Q4_K_M",
        ),
        (dataclasses.replace(DECODE, rows=lambda _: ("QUANT-GGUF-COMPUTE",)), "claims nothing itself"),
        (dataclasses.replace(PRODUCT, backends=("triton@sm_80",)), "does not list triton@sm_80 for Compute"),
    ],
)
def test_a_row_shows_what_it_does_not_offer(tree: Path, family: object, named: str) -> None:
    cases = list(family.cases())  # type: ignore[attr-defined]
    write_required(cases, tree)
    commit(tree)
    done = promote(make_run(tree, passing(tree, cases)), tree)
    assert done.added == ()
    assert named in done.blocked[0].reason


def test_failures_and_skips_are_counted_and_not_named(tree: Path) -> None:
    cases = [case for case in on("cpu") if Q4_K in case.rows]
    entries = [
        evidence(cases[0], tree, Verdict.FAIL_VALUE, max_abs=float("inf")),
        evidence(cases[1], tree, Verdict.SKIP, skip=skip(cases[1], kind="slow", expires="2030-01-01")),
        evidence(cases[2], tree),
    ]
    done = promote(make_run(tree, entries), tree)
    record = done.ledger.records[-1]
    assert record.verdicts == {Verdict.FAIL_VALUE: 1, Verdict.SKIP: 1, Verdict.PASS: 1}
    named = {case: verdict for line in record.lines for case, verdict in line.not_passed.items()}
    assert named == {cases[0].id: Verdict.FAIL_VALUE, cases[1].id: Verdict.SKIP}
    (skipped,) = record.skips
    assert (skipped.kind, skipped.reason, skipped.expires, skipped.cases) == (
        "slow",
        "needs sm_90",
        "2030-01-01",
        1,
    )


def test_two_kernels_of_one_cell_make_an_incomplete_record(tree: Path) -> None:
    cases = on("triton@sm_90")
    entries = [evidence(case, tree, kernel=f"kernel {number}") for number, case in enumerate(cases)]
    (record,) = promote(make_run(tree, entries), tree).ledger.records
    assert [line.kernel for line in record.lines] == ["kernel 0", "kernel 1"]
    assert record.verdicts == {Verdict.PASS: 2}
    assert record.devices == ("NVIDIA H200",)


def test_a_case_with_two_rows_counts_for_one(tree: Path) -> None:
    both = dataclasses.replace(DECODE, rows=lambda _: (Q4_K, "QUANT-GGUF-Q5_K"), encodings=("ggml.q4_k",))
    write_required(both.cases(), tree)
    commit(tree)
    done = promote(make_run(tree, passing(tree, both.cases())), tree)
    assert rows(done) == [Q4_K, "QUANT-GGUF-Q5_K"]


def test_a_killed_and_resumed_run_leaves_another_ledger_than_an_undisturbed_one(tree: Path) -> None:
    undisturbed = promote(make_run(tree, passing(tree)), tree)
    said = [record.says() for record in undisturbed.ledger.records]
    for name in (LEDGER, LEDGER.with_name("head.json")):
        (tree / name).unlink()
    options = {"command": ("pytest",), "pins": {}, "environment": {}, "code": current_code(tree)}
    writer = RunWriter.create(tree / "results" / "runs", **options)  # type: ignore[arg-type]
    for entry in passing(tree, CASES[:5]):
        writer.append(entry)
    with (writer.path / "verdicts.jsonl").open("a") as stream:
        stream.write(evidence(CASES[5], tree).line()[:-30])
    run = read_run(writer.path)
    required = load_required(tree)
    done = run.done_cases({case.id: required.code_hash(case.id) for case in CASES})
    with RunWriter.resume(writer.path, code=current_code(tree)) as again:
        for entry in passing(tree, [case for case in CASES if case.id not in done]):
            again.append(entry)
    assert len(done) == 5
    taken = read_run(writer.path).manifest.resumed[0]
    assert (taken.lines, taken.sha256) == (5, run.digest)
    (shown,) = read_run(writer.path).manifest.taken_over
    assert f"5 verdicts taken over as they were, sha256 {run.digest}" in shown
    resumed = promote(read_run(writer.path), tree)
    assert [record.says() for record in resumed.ledger.records] == said


def test_committed_lines_are_rewritten(tree: Path) -> None:
    promote(make_run(tree, passing(tree, on("cpu"))), tree)
    commit(tree)
    for name in (LEDGER, LEDGER.with_name("head.json")):
        (tree / name).unlink()
    with pytest.raises(BadInput, match="only appended to"):
        promote(make_run(tree, passing(tree)), tree)


def test_a_compacted_ledger_is_taken_for_a_rewritten_one(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    worse = make_run(tree, [evidence(case, tree, max_ulp=1) for case in CASES])
    promote(worse, tree)
    with pytest.raises(UsageProblem, match="commit it before"):
        promote(worse, tree, compacted=True)
    commit(tree)
    assert promote(worse, tree, compacted=True).ledger.head.lines == 5
    assert promote(make_run(tree, passing(tree)), tree).ledger.head.lines == 10


def _promote_in(tree: Path, run: Path, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    promote(read_run(run), tree)


def test_two_promotions_at_once_break_the_chain(tree: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    runs = [
        make_run(tree, passing(tree, on("cpu"))).path,
        make_run(tree, passing(tree, on("triton@sm_90"))).path,
    ]
    both = [spawn.Process(target=_promote_in, args=(tree, run, barrier)) for run in runs]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    assert read_ledger(tree).head.lines == 5


def test_a_promotion_waits_for_another_without_end(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tree, passing(tree))
    monkeypatch.setattr(promote_module, "LOCK_SECONDS", 0.1)
    with (
        promote_module.FileLock(tree / "results" / "runs" / ".promote.lock"),
        pytest.raises(Unavailable, match="another promotion"),
    ):
        promote(run, tree)
