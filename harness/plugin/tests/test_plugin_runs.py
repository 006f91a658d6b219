"""The evidence of a run: the same from any number of workers and in any order, complete after a kill and a resumption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from harness.evidence.record import Evidence
from harness.evidence.run import read_run, run_folders
from harness.paths import REPOSITORY
from harness.plugin.tests.conftest import Suite

MIXED = """
import os
@pytest.mark.cases(FAMILY)
def test_it(case, verdict, skip_case):
    if case.axes == (("values", "a"), ("size", "large")):
        give(case, verdict, -right(case))
    if case.axes == (("values", "b"), ("size", "small")):
        skip_case(row=ROW, kind="upstream_limit", reason="the engine has no product for this type", owner="me")
    give(case, verdict)
def test_plain():
    assert 1
"""


def same(evidence: dict[str, Evidence]) -> dict[str, str]:
    """Everything of each line but what time changes."""
    return {case: entry.model_copy(update={"seconds": 0.0}).line() for case, entry in evidence.items()}


def test_workers_or_order_change_the_verdicts(process: Suite) -> None:
    modes = ["-n", "0"], ["-n", "2"], ["-n", "0", "--shuffle", "7"], ["-n", "2", "--shuffle", "0"]
    ran = [process(MIXED, *mode) for mode in modes]
    assert [each.status for each in ran] == [1] * len(modes), ran[1].out
    assert len(ran[0].evidence) == 4
    assert all(same(each.evidence) == same(ran[0].evidence) for each in ran)
    assert "order: shuffled, --shuffle 7" in ran[2].out


def test_shuffling_shuffles_nothing_or_forgets_its_seed(suite: Suite) -> None:
    body = "".join(f"def test_{n}(): assert 1\n" for n in range(40))
    lists = [suite(body, "-v", "--shuffle", seed).out for seed in ("3", "3", "4")]
    order = [[line.split()[0] for line in text.splitlines() if "PASSED" in line] for text in lists]
    assert order[0] == order[1] != order[2]
    assert sorted(order[0]) == sorted(order[2])


KILLED = """
import os, signal
@pytest.mark.cases(FAMILY)
def test_it(case, verdict):
    if case.axis("values") == "b" and os.path.exists("kill"):
        os.unlink("kill")
        os.kill({victim}, signal.SIGKILL)
    give(case, verdict)
"""


def test_a_killed_run_cannot_be_resumed(process: Suite, pytester: pytest.Pytester) -> None:
    body = KILLED.format(victim="os.getpid()")
    undisturbed = process(body)
    (pytester.path / "kill").touch()
    killed = process(body, "-n", "0")
    assert killed.status == -signal.SIGKILL
    (run,) = set(run_folders(pytester.path / "results" / "runs")) - {run_of(undisturbed.out)}
    assert len(read_run(run).evidence) == 2
    resumed = process(body, "--resume", run.name)
    assert (resumed.status, same(resumed.evidence)) == (0, same(undisturbed.evidence)), resumed.out
    assert "2 cases are done" in resumed.out
    assert "2 passed, 2 deselected" in resumed.out
    again = process(body, "--resume", run.name, "-n", "2")
    assert (again.status, same(again.evidence)) == (0, same(undisturbed.evidence)), again.out


def run_of(out: str) -> Path:
    return Path(next(line for line in out.splitlines() if line.startswith("run ")).split(" in ")[1])


def test_a_resumed_run_forgets_that_it_had_failed(process: Suite) -> None:
    first = process(MIXED)
    again = process(MIXED, "--resume", run_of(first.out).name)
    assert (first.status, again.status) == (1, 1)
    assert same(again.evidence) == same(first.evidence)
    assert "FAIL_VALUE toy.decode/ggml.q4_0/a/large/cpu" in again.out


def test_a_resumed_run_keeps_a_verdict_of_other_code(process: Suite) -> None:
    body = "@pytest.mark.cases(ONE)\ndef test_it(case, verdict):\n    give(case, verdict)\n"
    first = process(body)
    changed = "ONE = another('toy.one', bound='the decode is defined exactly')\n" + body
    again = process(changed, "--resume", run_of(first.out).name)
    assert "1 passed" in again.out
    assert again.only().code_hash != first.only().code_hash


def test_a_worker_that_dies_leaves_no_trace(process: Suite, pytester: pytest.Pytester) -> None:
    (pytester.path / "kill").touch()
    ran = process(KILLED.format(victim="os.getpid()"), "-n", "2")
    dead = [entry for entry in ran.evidence.values() if entry.verdict != "PASS"]
    assert (ran.status, len(ran.evidence), [entry.verdict for entry in dead]) == (1, 4, ["ERROR_RUN"]), (
        ran.out
    )
    assert "crashed while running" in dead[0].message


def test_evidence_is_kept_where_nobody_asked_for_it(suite: Suite, tmp_path: Path) -> None:
    ran = suite(MIXED, "--no-evidence")
    assert (ran.status, ran.evidence, "1 FAIL_VALUE" in ran.out) == (1, {}, True)
    elsewhere = suite(MIXED, "--evidence", str(tmp_path / "runs"))
    assert len(elsewhere.evidence) == 4
    assert [path.parent for path in run_folders(tmp_path / "runs")] == [tmp_path / "runs"]
    assert suite("def test_plain(): assert 1\n").evidence == {}


def test_the_run_names_no_command(suite: Suite) -> None:
    ran = suite(MIXED, "--rows", "QUANT-GGUF-*")
    manifest = json.loads((run_of(ran.out) / "manifest.json").read_text())
    assert manifest["command"][0] == "pytest"
    assert "--rows" in manifest["command"]
    assert manifest["closed"]["lines"] == 4


def test_junit_loses_case_rows_and_verdict(process: Suite, pytester: pytest.Pytester) -> None:
    process(MIXED, "-n", "2", "--junitxml", "junit.xml")
    found = {}
    for testcase in ET.parse(pytester.path / "junit.xml").iter("testcase"):
        properties = {each.get("name"): each.get("value") for each in testcase.iter("property")}
        if properties:
            found[properties["case"]] = properties
    wrong = found["toy.decode/ggml.q4_0/a/large/cpu"]
    assert len(found) == 4
    assert wrong["verdict"] == "FAIL_VALUE"
    assert (wrong["rows"], wrong["dimension"], wrong["backend"]) == ("QUANT-GGUF-Q4_0", "Materialize", "cpu")
    assert found["toy.decode/ggml.q4_0/b/small/cpu"]["verdict"] == "SKIP"


GPU = """
import os
WIDE = another(backends=("triton@sm_90",), axes={"n": tuple(map(str, range(12)))})
@pytest.mark.cases(WIDE)
def test_it(case, verdict, gpu_correctness):
    with open("held", "a") as out:
        out.write(f"{os.getpid()} {' '.join(gpu_correctness.devices)}\\n")
    give(case, verdict, device="a GPU")
"""


def test_a_gpu_case_passes_without_a_gpu(process: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    ran = process(GPU + "def test_plain(): assert 1\n")
    skips = {entry.skip.kind + " " + entry.skip.row for entry in ran.evidence.values() if entry.skip}
    assert (ran.status, len(ran.evidence), skips) == (0, 12, {"hardware QUANT-GGUF-Q4_0"}), ran.out
    assert "no NVIDIA device is visible" in ran.out


def test_two_workers_use_one_device(
    process: Suite, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_GPU_LOCK", str(pytester.path / "lock"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b")
    ran = process(GPU, "-n", "2", "-m", "gpu")
    assert (ran.status, len(ran.evidence)) == (0, 12), ran.out
    held = [line.split() for line in (pytester.path / "held").read_text().splitlines()]
    workers = {device: {pid for pid, own in held if own == device} for device in ("MIG-a", "MIG-b")}
    assert [len(pids) for pids in workers.values()] == [1, 1], held


def test_a_gpu_case_that_kills_its_worker_is_run_again_or_stops_the_others(
    process: Suite, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_GPU_LOCK", str(pytester.path / "lock"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b")
    ran = process(GPU.replace("    give(", KILL_AT_5 + "    give("), "-n", "2")
    verdicts = sorted(entry.verdict for entry in ran.evidence.values())
    assert (ran.status, verdicts) == (1, ["ERROR_RUN", *["PASS"] * 11]), ran.out


KILL_AT_5 = """
    if case.axis("n") == "5":
        os.kill(os.getpid(), 9)
"""


def repository(*options: str, folder: Path, **more: str) -> subprocess.Popen[str]:
    """pytest over the real container cases of four encodings, evidence below `folder`."""
    command = [sys.executable, "-m", "pytest", "cases/ggml/test_container_cases.py", "-m", "quant_gguf", "-q"]
    command += ["--rows", "QUANT-GGUF-Q?_0", "-p", "no:cacheprovider", "--evidence", str(folder), *options]
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **more},
    )


def test_the_gguf_cases_differ_by_workers_order_or_kill(tmp_path: Path) -> None:
    """The bar of the whole lane, on a part of it that takes a few seconds."""
    modes = {"plain": ["-n", "0"], "workers": ["-n", "2"], "shuffled": ["--shuffle", "5"]}
    found = {}
    for name, options in modes.items():
        run = repository(*options, folder=tmp_path / name)
        out, _ = run.communicate(timeout=300)
        assert run.returncode == 0, out
        found[name] = same(dict(read_run(run_folders(tmp_path / name)[-1]).evidence))
    assert len(found["plain"]) > 40
    assert found["workers"] == found["plain"] == found["shuffled"]

    victim = repository("-n", "0", folder=tmp_path / "killed")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and victim.poll() is None:
        runs = run_folders(tmp_path / "killed")
        if runs and (runs[0] / "verdicts.jsonl").read_bytes().count(b"\n") >= 5:
            victim.kill()
            break
        time.sleep(0.005)
    victim.communicate(timeout=60)
    (run_folder,) = run_folders(tmp_path / "killed")
    assert 5 <= len(read_run(run_folder).evidence) < len(found["plain"])
    with (run_folder / "verdicts.jsonl").open("ab") as out_file:
        out_file.write(b'{"schema": "harness-evidence/1", "case": "ggml.')
    resumed = repository("-n", "2", "--resume", run_folder.name, folder=tmp_path / "killed")
    out, _ = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, out
    assert same(dict(read_run(run_folder).evidence)) == found["plain"]
