"""Subjects described by YAML: a C library and a program, right and wrong, through the command line."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import BadInput, UsageProblem
from harness.paths import REPOSITORY
from harness.subjects.described import Library, Process, command_of, read_description
from harness.tests.conftest import run_harness

EXAMPLES = REPOSITORY / "docs" / "examples"
EDGES = ("compare", "--checkpoint", "demo:edge-cases", "--oracle", "llama_cpp", "--json", "-")


def described(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("kind: magic\n", "kind"),
        ("kind: library\npath: x.so\n", "functions"),
        ("kind: library\npath: x.so\nfunctions: {ggml.q8_0: {symbol: 'rm -rf'}}\n", "symbol"),
        ("kind: library\npath: x.so\nfunctions: {ggml.q8_0: {symbol: f, arguments: [data]}}\n", "arguments"),
        ("kind: library\npath: x.so\nfunctions: {ggml.q8_0: {symbol: f, threads: 0}}\n", "threads"),
        ("kind: process\ncommand: []\n", "command"),
        ("kind: process\ncomand: [x]\n", "command"),
    ],
)
def test_a_broken_description_names_its_field(tmp_path, text, field):
    with pytest.raises(BadInput, match=field):
        read_description(described(tmp_path, text))


def test_an_unknown_encoding_is_not_taken(tmp_path):
    with pytest.raises(UsageProblem, match="unknown encoding"):
        read_description(
            described(tmp_path, "kind: library\npath: x.so\nfunctions: {ggml.q9: {symbol: f}}\n")
        )


def test_a_program_is_found_beside_its_description_and_not_in_the_current_folder(tmp_path):
    found = read_description(described(tmp_path, "kind: process\ncommand: [./provider, --fast]\n"))
    assert isinstance(found, Process)
    assert command_of(found, tmp_path / "mine.yaml") == [str(tmp_path / "provider"), "--fast"]


def test_a_library_that_is_not_there_is_bad_usage(tmp_path):
    path = described(tmp_path, "kind: library\npath: no.so\nfunctions: {ggml.q8_0: {symbol: f}}\n")
    ran = run_harness(*EDGES, "--subject", path)
    assert ran.status == 2
    assert "no.so" in ran.err


if compiler := shutil.which("cc"):

    def library(folder: Path, source: str) -> Path:
        (folder / "q8_0.c").write_text(source)
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", folder / "libq8_0.so", folder / "q8_0.c"], check=True
        )
        return described(folder, (EXAMPLES / "q8_0.yaml").read_text())

    def test_the_worked_library_is_right_in_every_edge_case(tmp_path):
        path = library(tmp_path, (EXAMPLES / "q8_0.c").read_text())
        assert isinstance(read_description(path), Library)
        ran = run_harness(*EDGES, "--subject", path, "--tensors", "q8_0.*")
        assert (ran.status, ran.report["levels"]["tensors"]["checked"]) == (0, 6), ran.err

    def test_a_library_that_stops_one_block_early_is_found(tmp_path):
        source = (EXAMPLES / "q8_0.c").read_text().replace("at < elements;", "at < elements - 32;")
        ran = run_harness(*EDGES, "--subject", library(tmp_path, source), "--tensors", "q8_0.every_byte*")
        assert (ran.status, ran.report["verdict"]) == (1, "FAIL_NONFINITE")
        assert "never written" in ran.report["first_divergence"]["diagnosis"]

    def test_a_library_that_writes_past_the_end_is_found(tmp_path):
        source = (EXAMPLES / "q8_0.c").read_text().replace("at < elements;", "at < elements + 32;")
        ran = run_harness(*EDGES, "--subject", library(tmp_path, source), "--tensors", "q8_0.every_byte*")
        assert (ran.status, ran.report["verdict"]) == (1, "FAIL_OOB")

    def test_an_encoding_that_the_library_does_not_name_is_no_pass(tmp_path):
        path = library(tmp_path, (EXAMPLES / "q8_0.c").read_text())
        ran = run_harness(*EDGES, "--subject", path, "--tensors", "q4_0.every_byte*")
        assert (ran.status, ran.report["verdict"]) == (3, "NOT_RUN")
        assert "names no function" in ran.report["levels"]["tensors"]["not_passed"][0]["message"]


def test_a_program_that_speaks_the_protocol_plays_the_subject(tmp_path):
    document = (REPOSITORY / "docs" / "protocol.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n# provider\.py\n(.*?)```", document, re.DOTALL)
    (tmp_path / "provider.py").write_text(program)
    path = described(tmp_path, f"kind: process\ncommand: [{sys.executable}, provider.py]\nname: tiny\n")
    ran = run_harness(*EDGES, "--subject", path, "--tensors", "q8_0.every_byte*")
    assert (ran.status, ran.report["subject"]["name"]) == (0, "tiny"), ran.err
    ran = run_harness(*EDGES, "--subject", path, "--tensors", "q4_0.every_byte*")
    assert (ran.status, ran.report["verdict"]) == (3, "NOT_RUN")


def test_a_program_that_does_not_start_is_bad_usage(tmp_path):
    path = described(tmp_path, "kind: process\ncommand: [./no-such-program]\n")
    ran = run_harness(*EDGES, "--subject", path)
    assert ran.status == 2
    assert "no-such-program" in ran.err or "could not be started" in ran.err
