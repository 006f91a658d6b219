"""Trees to write a format into."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.newformat.plan import plan
from harness.newformat.request import Request, request
from harness.newformat.write import write
from harness.paths import REPOSITORY

DATA = Path(__file__).parent / "data" / "bnb_nf4"
NF4 = {"name": "bnb.nf4", "block_elems": 64, "block_bytes": 36, "row": "QUANT-BNB"}
REQUESTS = {
    "an encoding": NF4,
    "an encoding of ggml": {"name": "ggml.q7_x", "block_elems": 32, "block_bytes": 30},
    "blocks that CUDA does not take": {"name": "ocp.mx9_x", "block_elems": 24, "block_bytes": 27},
    "a method": {"name": "vllm.tiny_method", "kind": "method"},
}


def copied(root: Path, *folders: str) -> Path:
    """These folders of the repository, without what runs leave behind, below `root`."""
    ignored = shutil.ignore_patterns("__pycache__", "runs", "*.so")
    for folder in folders:
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=ignored)
    return root


def wanted(which: str) -> Request:
    return request(**REQUESTS[which])


def begin(tree: Path, which: str) -> Request:
    """Write a format into the tree."""
    found = wanted(which)
    write(plan(found, tree), tree)
    return found


def contents(tree: Path) -> dict[str, bytes]:
    """Every file of a tree, and its folders."""
    return {
        path.relative_to(tree).as_posix(): path.read_bytes() if path.is_file() else b"(folder)"
        for path in tree.rglob("*")
    }


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What the scaffold reads and writes of the repository, with two units of all."""
    copied(tmp_path, "kernels/ggml/q4_0", "kernels/ggml/q8_0", "harness/rows/data", "cases/units")
    for file in ("cases/ggml/formulas.py", "kernels/tests/test_triton_matmul.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / file, tmp_path / file)
    return tmp_path
