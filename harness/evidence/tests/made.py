"""A small copy of the tree under git, and evidence made to measure in it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.evidence.case import Case, Family
from harness.evidence.code_hash import code_hash
from harness.evidence.record import Evidence, Judge, Skip, Worst
from harness.evidence.required import write_required
from harness.evidence.run import Run, RunWriter, current_code, read_run
from harness.paths import REPOSITORY
from harness.rows.model import Dimension
from harness.verdicts import Verdict
from kernels.units import unit
from oracles.pins import pin

UNITS = ("q4_k", "q8_0", "q8_k", "iq2_xxs", "iq4_nl")
COPIED = (
    *("kernels/*.py", "kernels/common/numpy/blocks.py", "harness/comparison/*.py"),
    *(
        "kernels/ggml/tables/ksigns.npy",
        "kernels/ggml/tables/iq2xxs_grid.npy",
        "kernels/ggml/tables/tables.yaml",
    ),
    *("harness/guard.py", "harness/containers/ggml_types.*"),
    *(
        f"harness/plugin/{name}.py"
        for name in ("devices", "evidence", "judging", "opinions", "outcome", "verdict")
    ),
    *("conftest.py", "cases/conftest.py"),
    *("cases/__init__.py", "cases/generators.py", "cases/special_values.py"),
    *(
        f"kernels/ggml/{name}/{file}"
        for name in UNITS
        for file in ("unit.yaml", "reference.py", "known.yaml")
    ),
)
"""What the code hashes of the cases below cover, and a little more."""

DECODE = Family(
    name="test.decode",
    op="dequantize",
    dimension=Dimension.MATERIALIZE,
    backends=("cpu",),
    encodings=("ggml.q4_k", "ggml.iq2_xxs"),
    axes={"values": ("random", "special", "ascending")},
    rows=lambda encoding: unit(encoding or "").rows,
    bound="the same bits",
    files=(REPOSITORY / "cases" / "generators.py",),
)
PRODUCT = Family(
    name="test.product",
    op="matmul",
    dimension=Dimension.COMPUTE,
    backends=("triton@interpreter", "triton@sm_90"),
    encodings=("ggml.q4_k",),
    axes={"m": ("1", "33")},
    rows=lambda encoding: unit(encoding or "").rows,
    bound="gamma_k u sum|a||b|",
    files=(REPOSITORY / "cases" / "generators.py",),
)
CASES = (*DECODE.cases(), *PRODUCT.cases())
Q4_K, IQ2_XXS = "QUANT-GGUF-Q4_K", "QUANT-GGUF-IQ2_XXS"


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def make_tree(root: Path) -> Path:
    """What code hashes cover, with the list of `CASES`, committed."""
    for path in sorted({path for pattern in COPIED for path in REPOSITORY.glob(pattern)}):
        if path.is_file() and path.suffix != ".pyc":
            target = root / path.relative_to(REPOSITORY)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    (root / ".gitignore").write_text("results/runs/\n__pycache__/\n")
    write_required(CASES, root)
    git(root, "init", "--quiet", "--template=")
    commit(root)
    git(root, "gc", "--quiet")
    return root


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "x")


def judges() -> tuple[Judge, ...]:
    """The pins of the repository, as they are."""
    found = [pin("llama_cpp.ops"), pin("formats")]
    return tuple(
        Judge(
            pin=entry.name,
            package=entry.package,
            version=entry.version,
            wheel_sha256=next(iter(entry.wheels.values())),
            worker_sha256=entry.worker_sha256(),
            live=True,
        )
        for entry in found
    )


def device_of(backend: str) -> str:
    return {"cpu": "cpu", "triton@interpreter": "triton interpreter"}.get(backend, "NVIDIA H200")


def evidence(case: Case, root: Path, verdict: Verdict = Verdict.PASS, **changes: Any) -> Evidence:
    """A verdict of a case with all that its kind requires; `changes` replace fields."""
    fields: dict[str, Any] = {
        "case": case.id,
        "family": case.family,
        "op": case.op,
        "encoding": case.encoding,
        "backend": case.backend,
        "dimension": case.dimension,
        "rows": case.rows,
        "seed": case.seed,
        "bound": case.bound,
        "verdict": verdict,
        "subject": "reference",
        "kernel": f"{case.encoding} on {case.backend}",
        "device": device_of(case.backend),
        "judges": judges(),
        "elements": 256,
        "code_hash": code_hash(case, root),
        "seconds": 0.25,
    }
    if verdict is Verdict.SKIP:
        fields |= {"kernel": "", "device": "", "judges": (), "elements": 0, "skip": skip(case)}
    elif verdict is not Verdict.PASS:
        fields |= {"message": "made to be so", "diverged": 1, "worst": WORST}
    return Evidence(**{**fields, **changes})


WORST = Worst(index=3, row=0, block=0, lane=3, subject=1.0, oracle=2.0, bound=0.0)


def skip(case: Case, **changes: Any) -> Skip:
    fields = {"row": case.rows[0], "kind": "hardware", "reason": "needs sm_90", "owner": "kernels"}
    return Skip(**{**fields, **changes})


def make_run(root: Path, entries: Iterable[Evidence], **options: Any) -> Run:
    """A closed run of the tree at `root`."""
    options = {"command": ("pytest",), "pins": {}, "environment": {"made": "up"}, **options}
    options.setdefault("code", current_code(root))
    with RunWriter.create(root / "results" / "runs", **options) as writer:
        for entry in entries:
            writer.append(entry)
    return read_run(writer.path)


def passing(root: Path, cases: Iterable[Case] = CASES) -> list[Evidence]:
    return [evidence(case, root) for case in cases]


def on(backend: str) -> list[Case]:
    return [case for case in CASES if case.backend == backend]
