"""A suite of its own for each test: a family of four cases, its right results, and a run of pytest over it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.evidence.record import Evidence
from harness.evidence.run import read_run
from harness.paths import REPOSITORY

FAMILY = """
import dataclasses
import numpy as np
import pytest
from harness.comparison.bounds import BIT_EXACT, Bound
from harness.errors import Unavailable
from harness.evidence.case import Family
from harness.evidence.record import Judge
from harness.plugin.judging import Opinion
from harness.plugin.verdict import CaseFailed
from harness.rows.model import Dimension

ROW = "QUANT-GGUF-Q4_0"
FAMILY = Family(
    name="toy.decode", op="dequantize", dimension=Dimension.MATERIALIZE, backends=("cpu",),
    encodings=("ggml.q4_0",), axes={"values": ("a", "b"), "size": ("small", "large")},
    rows=lambda encoding: (ROW,), bound=BIT_EXACT.derivation, files=(),
)
ONE = dataclasses.replace(FAMILY, name="toy.one", axes={"values": ("a",)})

def another(name="toy.other", **changes):
    return dataclasses.replace(ONE, name=name, **changes)

def judge_named(pin):
    return Judge(pin=pin, package="p", version="1", wheel_sha256="0", worker_sha256="0", live=True)

def right(case):
    size = 4096 if case.axes[-1][1] == "large" else 64
    return np.random.default_rng(case.seed).standard_normal((2, size)).astype(np.float32)

def opinions(case, *pins):
    return [Opinion(judge_named(pin), right(case)) for pin in pins or ("engine", "second")]

def give(case, verdict, values=None, **more):
    verdict(right(case) if values is None else values, opinions(case), kernel="toy", block_elems=32, **more)
"""

HEAD = "from family import *\n"


@dataclass(frozen=True)
class Ran:
    """One run of the inner suite."""

    status: int
    out: str
    evidence: dict[str, Evidence]

    def only(self) -> Evidence:
        """The one verdict of a run over one case."""
        assert len(self.evidence) == 1, self.out
        return next(iter(self.evidence.values()))


Suite = Callable[..., Ran]


def case(body: str, arguments: str = "case, verdict") -> str:
    """A test of the one case of the family ONE, with this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"\n@pytest.mark.cases(ONE)\ndef test_it({arguments}):\n{lines}"


def _ran(status: int, out: str) -> Ran:
    """With the evidence of the run that the summary names."""
    named = re.search(r"^run \S+ in (.+)$", out, re.MULTILINE)
    return Ran(status, out, dict(read_run(Path(named[1])).evidence) if named else {})


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    """`suite(body, *options)`: run pytest over one file with this body, in this process."""
    _prepare(pytester.path)
    pytester.syspathinsert()

    def run(body: str, *options: str) -> Ran:
        (pytester.path / "test_toy.py").write_text(HEAD + body)
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options)
        return _ran(int(result.ret), f"{result.stdout}\n{result.stderr}")

    return run


@pytest.fixture
def process(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """`process(body, *options)`: the same in a process of its own, as for workers and what ends a process."""
    _prepare(pytester.path)
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}:{REPOSITORY}")

    def run(body: str, *options: str) -> Ran:
        (pytester.path / "test_toy.py").write_text(HEAD + body)
        command = (
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
            *options,
        )
        result = pytester.run(*command, timeout=120)
        return _ran(int(result.ret), f"{result.stdout}\n{result.stderr}")

    return run


def _prepare(folder: Path) -> None:
    (folder / "family.py").write_text(FAMILY)
    (folder / "conftest.py").write_text('pytest_plugins = ["harness.plugin"]\n')
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra --strict-markers\nfilterwarnings = error\n")
