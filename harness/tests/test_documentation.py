"""What the README shows must be what happens."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.paths import REPOSITORY
from harness.tests.conftest import run_harness

EXAMPLES = REPOSITORY / "docs" / "examples"


def test_the_readme_holds_the_example_that_is_run():
    assert (EXAMPLES / "my_decode.py").read_text() in (REPOSITORY / "README.md").read_text()


@pytest.mark.parametrize(
    ("example", "status", "words"),
    [
        ("my_decode.py", 0, "PASS"),
        (
            "my_wrong_decode.py",
            1,
            "worst: row 111 block 15 lane 7: got -3.546875 (0xc0630000), wanted 2.42236328125",
        ),
    ],
)
def test_the_worked_examples_end_as_shown(smollm2, example, status, words):
    ran = run_harness(
        *("compare", "--checkpoint", "demo:smollm2", "--oracle", "llama_cpp"),
        *("--subject", f"{EXAMPLES / example}:dequantize", "--tensors", "blk.0.*_k.weight"),
    )
    assert ran.status == status
    assert words in ran.out


def test_every_link_in_the_documents_leads_somewhere():
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    assert len(pages) > 3
    for page in pages:
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", prose):
            assert (page.parent / Path(target)).exists(), f"{page.name}: {target}"


def test_help_answers_before_anyone_waits():
    took = []
    for _ in range(5):
        start = time.perf_counter()
        done = subprocess.run(
            [Path(sys.executable).parent / "harness", "--help"], capture_output=True, check=True
        )
        took.append(time.perf_counter() - start)
        assert b"compare" in done.stdout
    assert min(took) < 0.3
