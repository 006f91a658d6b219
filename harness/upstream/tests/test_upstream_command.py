"""`harness upstream` as a user meets it: counts that add up, exit codes, JSON as its schema says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

from cases.upstream.inventory import DATA
from harness.paths import REPOSITORY
from harness.tests.conftest import run_harness
from harness.upstream.model import STATES, Status
from harness.upstream.status import status
from harness.upstream.tests.trees import AWQ, GPTQ, write_tree, write_zip

SCHEMAS = REPOSITORY / "docs" / "schemas"


def valid(report: dict[str, object], schema: str) -> dict[str, object]:
    jsonschema.validate(report, json.loads((SCHEMAS / schema).read_text(encoding="utf-8")))
    return report


def test_536_of_536_are_accounted_for():
    report = status()
    assert report.total == 536
    assert report.ported + report.skipped + report.not_applicable == 536
    assert report.unaccounted == 0
    assert sum(len(file.tests) for file in report.files) == 536
    assert len({(file.engine, file.path) for file in report.files}) == 102


def test_a_report_whose_sum_is_wrong_is_refused():
    good = status().model_dump(by_alias=True)
    for name in ("total", "skipped"):
        with pytest.raises(ValidationError, match=r"the fates|add up"):
            Status.model_validate(good | {name: good[name] + 1})


def test_status_prints_what_its_json_says():
    ran = run_harness("upstream", "status", "--json", "-")
    assert ran.status == 0
    report = valid(ran.report, "upstream.schema.json")
    assert set(report) >= {"total", *STATES, "files"}
    table = run_harness("upstream", "status").out
    assert str(report["skipped"]) in table
    assert "llama.cpp" in table


def test_one_engine_and_one_fate_are_listed_test_by_test():
    ran = run_harness("upstream", "status", "--engine", "mlx", "--fate", "not_applicable", "--json", "-")
    fates = [test["fate"] for file in ran.report["files"] for test in file["tests"]]
    assert set(fates) == {"not_applicable"}
    assert ran.report["total"] == len(fates) == 10
    shown = run_harness("upstream", "status", "--engine", "mlx", "--fate", "not_applicable").out
    assert "training is no op of the harness" in shown


@pytest.mark.parametrize(("option", "value"), [("--engine", "sglang"), ("--fate", "forgotten")])
def test_an_unknown_engine_or_fate_names_those_that_exist(option: str, value: str):
    ran = run_harness("upstream", "status", option, value)
    assert ran.status == 2
    assert value in ran.err


def test_a_difference_exits_1_and_equal_trees_0(tmp_path: Path):
    was = write_tree(tmp_path / "was", {AWQ: "def test_gemm(): ...\n", GPTQ: "def test_a(): ...\n"})
    now = write_tree(tmp_path / "now", {AWQ: "def test_gemm(): ...\n"})
    ran = run_harness("upstream", "diff", "vllm", "--tree", now, "--against", was, "--json", "-")
    assert ran.status == 1
    valid(ran.report, "upstream-diff.schema.json")
    assert ran.report["removed_files"][0]["path"] == GPTQ
    shown = run_harness("upstream", "diff", "vllm", "--tree", now, "--against", was)
    assert f"- {GPTQ}: test_a" in shown.out
    same = run_harness("upstream", "diff", "vllm", "--tree", was, "--against", was)
    assert (same.status, "0 re-bounded" in same.out) == (0, True)


def test_a_tree_against_the_inventory_names_what_it_lacks(tmp_path: Path):
    ran = run_harness(
        "upstream", "diff", "vllm", "--tree", write_tree(tmp_path, {GPTQ: "def test_a(): ...\n"})
    )
    assert ran.status == 1
    assert "- tests/kernels/quantization/test_block_int8.py: test_w8a8_block_int8_matmul" in ran.out


def test_a_wrong_root_exits_3_and_a_broken_tree_2(tmp_path: Path):
    wheel = write_zip(tmp_path / "a.whl", {"vllm/__init__.py": ""})
    assert run_harness("upstream", "diff", "vllm", "--tree", wheel).status == 3
    wheel.write_bytes(b"PK\3\4 not an archive")
    broken = run_harness("upstream", "diff", "vllm", "--tree", wheel)
    assert (broken.status, "zip archive" in broken.err) == (2, True)
    assert run_harness("upstream", "diff", "vllm", "--tree", tmp_path / "none").status == 2
    assert run_harness("upstream", "diff", "sglang", "--tree", tmp_path).status == 2


def test_a_name_of_a_test_cannot_write_to_the_terminal(tmp_path: Path):
    was = write_tree(tmp_path / "was", {AWQ: "def test_a(): ...\n"})
    text = "import pytest\n@pytest.mark.parametrize('\\x1b[31mn', ['\\x1b]0;x\\x07'])\ndef test_a(n): ...\n"
    now = write_tree(tmp_path / "now", {AWQ: text})
    ran = run_harness("upstream", "diff", "vllm", "--tree", now, "--against", was)
    assert ran.status == 1
    assert "\x1b" not in ran.out


def test_a_dry_run_shows_the_diff_and_writes_nothing(tmp_path: Path):
    for name in ("vllm.yaml", "cpp_facts.yaml"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    before = (tmp_path / "vllm.yaml").read_bytes()
    tree = write_tree(tmp_path / "vllm-9.0.0", {AWQ: "def test_gemm(): ...\n"})
    arguments = ("upstream", "update", "vllm", "--tree", tree, "--inventory", tmp_path)
    ran = run_harness(*arguments, "--dry-run")
    assert (ran.status, "+    gone_in: 9.0.0" in ran.out) == (1, True)
    assert (tmp_path / "vllm.yaml").read_bytes() == before
    assert run_harness(*arguments).status == 1
    assert (tmp_path / "vllm.yaml").read_bytes() != before
    again = run_harness(*arguments)
    assert (again.status, "is what the tree says" in again.out) == (0, True)
