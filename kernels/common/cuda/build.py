"""Build of the CUDA library: one translation unit for each encoding that has a `decode.cuh`, found by directory.

`python -m kernels.common.cuda [--arch 90a]…` compiles without a GPU. The result is kept by
the digest of everything that went into it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.errors import Unavailable, UsageProblem
from harness.paths import KERNELS, REPOSITORY, cache_root
from harness.text import printable
from kernels.units import Unit, load_units

ARCHITECTURES = ("80", "90a", "100a")
FLAGS = ("-std=c++17", "-O3", "-Xcompiler", "-fPIC", "-Xptxas", "-v", "-Werror", "all-warnings")
COMMON = KERNELS / "common" / "cuda"


@dataclass(frozen=True)
class Usage:
    """What ptxas says about one kernel."""

    kernel: str
    architecture: str
    registers: int
    spill_bytes: int


@dataclass(frozen=True)
class Library:
    """A built library and the resources of its kernels (empty when it came from the cache)."""

    path: Path
    digest: str
    usage: tuple[Usage, ...]


def cuda_units() -> list[Unit]:
    """The units that have a CUDA decode, in the order of their names."""
    return [unit for unit in load_units().values() if (unit.path / "decode.cuh").is_file()]


def type_name(unit: Unit) -> str:
    """The C++ type that a unit's decode.cuh defines: `ggml_q4_k`."""
    return f"{unit.dialect}_{unit.name}"


def compiler() -> str:
    """Path of nvcc: `$NVCC`, else the one on PATH, else /usr/local/cuda's. Raises Unavailable when there is none."""
    for candidate in (os.environ.get("NVCC"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"):
        if candidate and Path(candidate).is_file():
            return candidate
    raise Unavailable("CUDA kernels are compiled with nvcc, which is not on PATH; set NVCC to its path")


def translation_unit(unit: Unit) -> str:
    """The source that instantiates the shared loops for one encoding."""
    decode = (unit.path / "decode.cuh").relative_to(REPOSITORY).as_posix()
    return (
        f'#include "{decode}"\n#define UNIT {type_name(unit)}\n#include "kernels/common/cuda/exports.cuh"\n'
    )


def digest(units: Sequence[Unit], architectures: Sequence[str]) -> str:
    """Digest over the sources, the flags and the compiler's version."""
    hasher = hashlib.sha256()
    version = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    for part in (version, *FLAGS, *architectures):
        hasher.update(part.encode() + b"\0")
    sources = sorted(path for path in COMMON.iterdir() if path.suffix in (".cu", ".cuh"))
    for path in (*sources, *(unit.path / "decode.cuh" for unit in units)):
        hasher.update(path.relative_to(REPOSITORY).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()


def build(architectures: Sequence[str] = ARCHITECTURES, units: Sequence[Unit] | None = None) -> Library:
    """Compile for the architectures ("80", "90a", …) into one shared library, or take it from the cache.

    Raises UsageProblem for an architecture that is no number with an optional `a`, Unavailable with nvcc's first
    errors when it fails.
    """
    for architecture in architectures:
        if not re.fullmatch(r"\d{2,3}a?", architecture):
            raise UsageProblem(
                f"architecture {printable(architecture)}: wanted a number such as 80, 90a or 100a"
            )
    chosen = list(units) if units is not None else cuda_units()
    key = digest(chosen, architectures)
    target = cache_root() / "cuda" / f"harness-{key[:16]}.so"
    if target.is_file():
        return Library(target, key, ())
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        scratch = Path(folder)
        sources = [COMMON / "activations.cu"]
        for unit in chosen:
            source = scratch / f"{type_name(unit)}.cu"
            source.write_text(translation_unit(unit), encoding="utf-8")
            sources.append(source)
        generate = [flag for a in architectures for flag in ("-gencode", f"arch=compute_{a},code=sm_{a}")]

        def compile_one(source: Path) -> tuple[Path, str]:
            item = scratch / f"{source.stem}.o"
            command = [compiler(), *FLAGS, *generate, f"-I{REPOSITORY}", "-c", str(source), "-o", str(item)]
            return item, _run(command)

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            compiled = list(pool.map(compile_one, sources))
        library = scratch / "library.so"
        _run([compiler(), "-shared", "-o", str(library), *(str(item) for item, _ in compiled)])
        library.replace(target)
    return Library(target, key, tuple(usage for _, log in compiled for usage in _usage(log)))


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    log = done.stdout + done.stderr
    if done.returncode:
        lines = [line for line in log.splitlines() if "error" in line] or log.splitlines()
        raise Unavailable(f"nvcc failed: {' | '.join(printable(line) for line in lines[:4])}")
    return log


def _usage(log: str) -> list[Usage]:
    found = []
    pattern = (
        r"Compiling entry function '(?P<kernel>[^']+)' for 'sm_(?P<arch>\w+)'"
        r".*?(?P<spill>\d+) bytes spill stores.*?Used (?P<registers>\d+) registers"
    )
    for match in re.finditer(pattern, log, re.DOTALL):
        found.append(Usage(match["kernel"], match["arch"], int(match["registers"]), int(match["spill"])))
    return found
