"""`harness matrix` and `harness results` on the repository as it is, and on a whole copy of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli.matrix import command as matrix_command
from harness.cli.results import command as results_command
from harness.errors import UsageProblem
from harness.evidence.tests.made import CASES, commit, evidence, make_run, passing, skip
from harness.paths import REPOSITORY
from harness.rows.load import load_rows
from harness.verdicts import Verdict


def run(command: object, *arguments: object) -> Result:
    return CliRunner().invoke(
        command, [str(each) for each in arguments], catch_exceptions=False, standalone_mode=False
    )  # type: ignore[arg-type]


def test_json_on_stdout_is_not_json_alone() -> None:
    document = json.loads(run(matrix_command, "--json", "-").stdout)
    assert [row["id"] for row in document["rows"]] == list(load_rows())


def test_a_family_is_shown_with_the_others(tmp_path: Path) -> None:
    target = tmp_path / "matrix.json"
    page = tmp_path / "matrix.html"
    printed = run(matrix_command, "--family", "mlx", "--json", target, "--html", page, "--markdown").stdout
    assert {row["family"] for row in json.loads(target.read_text())["rows"]} == {"mlx"}
    assert "QUANT-MLX-AFFINE-Q4" in page.read_text()
    assert "| QUANT-MLX-AFFINE-Q4 |" in printed
    assert "QUANT-GGUF-Q4_K" not in printed


def test_the_table_leaves_out_a_row_when_piped() -> None:
    printed = run(matrix_command).stdout
    assert all(f" {row} " in printed for row in load_rows())
    assert "computed from" in printed


def test_two_formats_for_stdout_at_once_are_taken() -> None:
    with pytest.raises(UsageProblem, match="stdout"):
        run(matrix_command, "--json", "-", "--markdown")
    with pytest.raises(UsageProblem, match="families are"):
        run(matrix_command, "--family", "nope")


@pytest.fixture
def runs(tree: Path) -> Path:
    return tree / "results" / "runs"


def test_list_hides_a_run_that_cannot_be_read(tree: Path, runs: Path) -> None:
    assert "no run" in run(results_command, "list", "--runs", runs).stdout
    good = make_run(tree, passing(tree))
    bad = make_run(tree, passing(tree))
    (bad.path / "verdicts.jsonl").write_text("")
    result = run(results_command, "list", "--runs", runs)
    assert result.return_value == 3
    assert f"{good.manifest.id}  10 PASS" in result.stdout
    assert "changed afterwards" in result.stdout
    document = json.loads(run(results_command, "list", "--runs", runs, "--json", "-").stdout)
    assert {entry["id"] for entry in document["runs"]} == {good.manifest.id, bad.manifest.id}


@pytest.mark.parametrize(
    ("verdict", "status"),
    [(Verdict.PASS, 0), (Verdict.FAIL_VALUE, 1), (Verdict.NOT_RUN, 3), (Verdict.SKIP, 3)],
)
def test_show_ends_as_if_all_were_well(tree: Path, runs: Path, verdict: Verdict, status: int) -> None:
    made = make_run(tree, [evidence(case, tree, verdict) for case in CASES[:3]])
    result = run(results_command, "show", made.manifest.id, "--runs", runs)
    assert result.return_value == status
    assert (CASES[0].id in result.stdout) == (verdict is not Verdict.PASS)
    document = json.loads(run(results_command, "show", "latest", "--runs", runs, "--json", "-").stdout)
    assert document["verdicts"] == {verdict.value: 3}


def test_show_prints_control_characters_of_a_message(tree: Path, runs: Path) -> None:
    make_run(tree, [evidence(CASES[0], tree, Verdict.SKIP, skip=skip(CASES[0], reason="\x1b[31mred\nPASS"))])
    assert "\\x1b[31mred\\nPASS" in run(results_command, "show", "latest", "--runs", runs).stdout


def test_diff_ends_well_although_something_was_lost(tree: Path, runs: Path) -> None:
    good = make_run(tree, passing(tree)).manifest.id
    bad = make_run(tree, [evidence(CASES[0], tree, Verdict.TIMEOUT), *passing(tree, CASES[1:])]).manifest.id
    worse = run(results_command, "diff", good, bad, "--runs", runs)
    assert worse.return_value == 1
    assert f"{CASES[0].id}: PASS -> TIMEOUT" in worse.stdout
    assert "unchanged: 9" in worse.stdout
    better = run(results_command, "diff", bad, good, "--runs", runs, "--json", "-")
    assert better.return_value == 0
    assert json.loads(better.stdout)["counts"] == {"fixed": 1}


def test_merge_does_not_name_the_new_run(tree: Path, runs: Path) -> None:
    parts = [make_run(tree, passing(tree, CASES[number::2])).manifest.id for number in range(2)]
    result = run(results_command, "merge", *parts, "--runs", runs)
    merged = result.stdout.split()[0]
    assert result.return_value == 0
    assert "10 PASS" in run(results_command, "show", merged, "--runs", runs).stdout


def harness(tree: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line of the copy of the harness in `tree`."""
    return subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", *map(str, arguments)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_promote_check_and_matrix_do_not_work_from_the_command_line(tree: Path) -> None:
    for name in ("harness", "oracles"):
        shutil.copytree(
            REPOSITORY / name,
            tree / name,
            ignore=shutil.ignore_patterns("__pycache__", "tests"),
            dirs_exist_ok=True,
        )
    commit(tree)
    made = make_run(tree, passing(tree, [case for case in CASES if case.backend == "cpu"]))
    empty = harness(tree, "results", "check", "latest")
    assert (empty.returncode, "the ledger is empty" in empty.stdout) == (0, True)
    promoted = harness(tree, "results", "promote", "latest")
    assert (promoted.returncode, promoted.stderr) == (0, "")
    assert "2 cells added, 0 unchanged, 0 left out" in promoted.stdout
    again = harness(tree, "results", "promote", made.manifest.id)
    assert "0 cells added, 2 unchanged" in again.stdout
    checked = harness(tree, "results", "check", "latest", "--json", "-")
    assert (checked.returncode, json.loads(checked.stdout)["confirmed"]) == (0, 2)
    document = json.loads(harness(tree, "matrix", "--json", "-").stdout)
    assert document["counts"]["Materialize"]["pass"] == 2

    ledger = tree / "results" / "ledger" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"PASS":3', '"PASS":4', 1))
    edited = harness(tree, "matrix")
    assert edited.returncode == 2
    assert "line 3, prev" in edited.stderr
    assert "Traceback" not in edited.stderr


def test_promote_ends_well_although_a_cell_was_left_out(tree: Path) -> None:
    for name in ("harness", "oracles"):
        shutil.copytree(
            REPOSITORY / name,
            tree / name,
            ignore=shutil.ignore_patterns("__pycache__", "tests"),
            dirs_exist_ok=True,
        )
    commit(tree)
    make_run(tree, passing(tree, CASES[1:]))
    left_out = harness(tree, "results", "promote", "latest")
    assert left_out.returncode == 1
    assert "left out: QUANT-GGUF-Q4_K Materialize cpu: 1 case" in left_out.stdout
    make_run(tree, [])
    assert harness(tree, "results", "promote", "latest").returncode == 3
    (tree / "kernels" / "units.py").write_text("#")
    dirty = harness(tree, "results", "promote", "latest")
    assert (dirty.returncode, "kernels/units.py" in dirty.stderr) == (2, True)
