"""Runs: what survives a kill, what is refused when it is read back, what need not run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import BadInput, UsageProblem
from harness.evidence.record import Evidence
from harness.evidence.required import load_required
from harness.evidence.run import MANIFEST, VERDICTS, RunWriter, current_code, find_run, read_run, run_folders
from harness.evidence.tests.made import CASES, WORST, commit, evidence, make_run, on, passing
from harness.verdicts import Side, Verdict

WRITER = """
import itertools, sys
from pathlib import Path
from harness.evidence.record import Evidence
from harness.evidence.run import Code, RunWriter

writer = RunWriter.create(Path(sys.argv[1]), command=["x"], pins={}, environment={"a": 1}, code=Code(commit=None, uncommitted=()))
line = Evidence.model_validate_json(sys.argv[2])
print(writer.path, flush=True)
for number in itertools.count():
    writer.append(line.model_copy(update={"case": f"case/{number}/cpu"}))
    print(number, flush=True)
"""


def test_a_killed_run_loses_more_than_the_line_it_was_writing(tree: Path) -> None:
    entry = evidence(CASES[0], tree)
    command = [sys.executable, "-c", WRITER, str(tree / "runs"), entry.line()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        path = Path(writer.stdout.readline().strip())
        time.sleep(0.3)
        os.kill(writer.pid, signal.SIGKILL)
        told = writer.stdout.read().split("\n")
    assert writer.returncode == -signal.SIGKILL
    said = [int(number) for number in told[:-1]]
    assert len(said) > 10
    run = read_run(path)
    assert len(run.evidence) >= len(said)
    assert run.evidence[f"case/{said[-1]}/cpu"] == entry.model_copy(update={"case": f"case/{said[-1]}/cpu"})
    assert run.manifest.closed is None


def half_written(tree: Path) -> Path:
    """Two verdicts and the beginning of a third, as a kill in the middle of a write leaves them."""
    first, second, third = passing(tree, CASES[:3])
    writer = RunWriter.create(tree / "runs", command=["x"], pins={}, environment={}, code=current_code(tree))
    writer.append(first)
    writer.append(second)
    with (writer.path / VERDICTS).open("a") as stream:
        stream.write(third.line()[:100])
    return writer.path


def test_an_unfinished_last_line_is_counted_or_stops_the_reading(tree: Path) -> None:
    run = read_run(half_written(tree))
    assert run.truncated
    assert len(run.evidence) == run.lines == 2
    assert any("line 3 is unfinished (100 bytes)" in note for note in run.notes)


def test_resuming_glues_a_new_line_to_an_unfinished_one(tree: Path) -> None:
    path = half_written(tree)
    third = evidence(CASES[2], tree)
    with RunWriter.resume(path) as writer:
        writer.append(third)
    run = read_run(path)
    assert list(run.evidence) == [case.id for case in CASES[:3]]
    assert not run.truncated
    assert [entry.cut_bytes for entry in run.manifest.resumed] == [100]
    assert run.manifest.closed is not None
    assert run.manifest.closed.lines == 3


def test_a_broken_line_in_the_middle_is_taken_for_a_crash(tree: Path) -> None:
    path = half_written(tree)
    lines = (path / VERDICTS).read_text().split("\n")
    (path / VERDICTS).write_text("\n".join([lines[0][:50], *lines[1:]]))
    with pytest.raises(BadInput, match="line 1") as refused:
        read_run(path)
    assert refused.value.file == str(path / VERDICTS)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"verdict":"PASS"', '"verdict":"Y"', "line 1, verdict"),
        ('"elements":256', '"elements":0', "line 1: got"),
        ('"diverged":0', '"diverged":7', "no element is outside"),
        ('"error_over_bound":0.0', '"error_over_bound":1.5', "no element is outside"),
        ('"error_over_bound":0.0', '"error_over_bound":"NaN"', "no element is outside"),
        ('"seed":', '"state":"pass","seed":', "line 1, state"),
    ],
)
def test_a_verdict_without_what_its_kind_requires_is_read(tree: Path, old: str, new: str, named: str) -> None:
    path = half_written(tree)
    text = (path / VERDICTS).read_text()
    assert old in text
    (path / VERDICTS).write_text(text.replace(old, new, 1))
    with pytest.raises(BadInput, match=named):
        read_run(path)


def test_a_run_is_edited_after_it_ended(tree: Path) -> None:
    failing = evidence(CASES[0], tree, Verdict.ERROR_RUN)
    path = make_run(tree, [failing]).path
    text = (path / VERDICTS).read_text()
    (path / VERDICTS).write_text(text.replace("ERROR_RUN", "PASS").replace('"diverged":1', '"diverged":0'))
    with pytest.raises(BadInput, match="changed afterwards"):
        read_run(path)


def test_a_second_verdict_of_a_case_is_added_to_the_first_in_silence(tree: Path) -> None:
    first = evidence(CASES[0], tree, Verdict.TIMEOUT)
    run = make_run(tree, [first, evidence(CASES[0], tree)])
    assert run.evidence[CASES[0].id].verdict is Verdict.PASS
    assert any("twice, TIMEOUT and then PASS" in note for note in run.notes)


def test_numbers_that_json_has_no_word_for_break_a_line(tree: Path) -> None:
    worst = WORST.model_copy(update={"subject": float("nan"), "oracle": float("-inf")})
    entry = evidence(
        CASES[0],
        tree,
        Verdict.FAIL_NONFINITE,
        max_abs=float("inf"),
        error_over_bound=float("inf"),
        worst=worst,
    )
    data = json.loads(entry.line(), parse_constant=lambda word: pytest.fail(word))
    assert (data["max_abs"], data["worst"]["subject"], data["worst"]["oracle"]) == (
        "Infinity",
        "NaN",
        "-Infinity",
    )
    assert Evidence.model_validate_json(entry.line()).line() == entry.line()


def test_a_case_whose_code_changed_or_that_was_not_judged_is_not_run_again(tree: Path) -> None:
    cases = on("cpu")
    entries = [
        evidence(cases[0], tree),
        evidence(cases[1], tree, Verdict.FAIL_VALUE),
        evidence(cases[2], tree, Verdict.NOT_RUN),
        evidence(cases[3], tree, Verdict.ERROR_RUN, side=Side.ORACLE),
        evidence(cases[4], tree, code_hash="0" * 16),
        evidence(cases[5], tree, code_hash=""),
    ]
    run = make_run(tree, entries)
    required = load_required(tree)
    done = run.done_cases({case.id: required.code_hash(case.id) for case in cases})
    assert done == {cases[0].id, cases[1].id}


def test_the_manifest_does_not_say_that_code_was_not_committed(tree: Path) -> None:
    (tree / "kernels" / "new.py").write_text("")
    run = make_run(tree, passing(tree, CASES[:1]))
    assert run.manifest.uncommitted == ("kernels/new.py",)
    commit(tree)
    with RunWriter.resume(run.path, code=current_code(tree)):
        pass
    assert read_run(run.path).manifest.uncommitted == ("kernels/new.py",)


def test_a_run_cannot_be_named_or_the_wrong_one_is_taken(tree: Path) -> None:
    runs = tree / "results" / "runs"
    with pytest.raises(UsageProblem, match="it holds none"):
        find_run("latest", runs)
    first, second = (make_run(tree, passing(tree, CASES[:1])).path for _ in range(2))
    assert find_run(first.name, runs) == first
    assert find_run(second.name[:-1], runs) in (first, second)
    assert find_run("latest", runs) == max(first, second)
    assert find_run(str(second), runs) == second
    with pytest.raises(UsageProblem, match="several runs"):
        find_run("2", runs)
    with pytest.raises(UsageProblem, match="no run nope"):
        find_run("nope", runs)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema": "harness-run/9"}'])
def test_a_broken_manifest_is_a_traceback(tree: Path, content: str) -> None:
    path = make_run(tree, passing(tree, CASES[:1])).path
    (path / MANIFEST).write_text(content)
    with pytest.raises(BadInput, match=r"manifest\.json"):
        read_run(path)


def test_a_run_without_pins_and_machine_is_written(tree: Path) -> None:
    with RunWriter.create(tree / "runs", command=["pytest"], code=current_code(tree)) as writer:
        pass
    pins = json.loads((writer.path / "pins.json").read_text())
    assert pins["formats"]["package"] == "gguf"
    machine = json.loads((writer.path / "environment.json").read_text())
    assert machine["subnormals"] == {"results_flushed_to_zero": False, "operands_read_as_zero": False}
    assert {"python", "cpu", "packages", "variables", "threads"} <= set(machine)


def test_the_latest_of_two_runs_in_one_second_is_not_a_matter_of_luck(tmp_path: Path) -> None:
    paths = []
    for _ in range(12):
        writer = RunWriter.create(tmp_path)
        writer.close()
        paths.append(writer.path)
    assert run_folders(tmp_path) == paths
    assert find_run("latest", tmp_path) == paths[-1]
