"""Compile every encoding's Triton kernels for GPUs that are not there, and say what each one uses.

    python -m kernels.common.triton.compile_all [--encodings q4_k,q6_k] [--capabilities 80,90,100] [--tiles sample|ends|all]
                                                [--loops expand,get_rows,matvec,matmul] [--jobs N] [--json FILE]

For each encoding: the dequantize loop for each output type, the matvec loop and the matmul loop for each type of
activations; of the tiles the smallest and the largest (`ends`), or all. `sample` is one kernel a loop. Nothing runs; ptxas and cuobjdump
come with Triton. Exit 1 when a kernel does not compile or wants more shared memory than the device has. A kernel that
spills a few registers is counted, and is no failure.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.paths import KERNELS
from kernels.common.triton.plan import (
    EXPAND_WARPS,
    MATMUL_TILES,
    MATVEC_TILES,
    Tile,
    alignment,
    constants,
    expand_groups,
    tile_for,
)
from kernels.units import Unit, load_units, unit

TYPES = {"float32": "*fp32", "float16": "*fp16", "bfloat16": "*bf16"}
SHARED_LIMIT = {80: 163 << 10, 90: 227 << 10, 100: 227 << 10}
"""Shared memory of one program, bytes, by capability: CUDA C++ Programming Guide, technical specifications."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One kernel for one device. `type` is that of the activations, of the output for the dequantize loop."""

    encoding: str
    loop: str
    type: str
    capability: int
    rows_x: int = 0


@dataclasses.dataclass(frozen=True)
class Report:
    """What a compiled kernel uses: registers a thread, bytes of stack a thread (spills), bytes of shared memory."""

    job: Job
    registers: int
    stack: int
    shared: int
    problem: str = ""


def jobs(encodings: Sequence[str], capabilities: Sequence[int], which: str) -> Iterator[Job]:
    """The kernels to compile; `which` is "sample", "ends" or "all"."""
    for encoding in encodings:
        for capability in capabilities:
            if which == "sample":
                yield Job(encoding, "expand", "float32", capability)
                yield Job(encoding, "matvec", "float16", capability, 1)
                yield Job(encoding, "matmul", "bfloat16", capability, 16)
                continue
            for name in TYPES:
                yield Job(encoding, "expand", name, capability)
            yield Job(encoding, "get_rows", "float16", capability)
            for loop, tiles in (("matvec", MATVEC_TILES), ("matmul", MATMUL_TILES)):
                for tile in tiles if which == "all" else (tiles[0], tiles[-1]):
                    for name in TYPES:
                        if not (loop == "matmul" and name == "float32"):
                            yield Job(encoding, loop, name, capability, tile.rows_x)


def compile_job(job: Job) -> Report:
    """Compile one kernel as its launch would: contiguous activations, 16-byte aligned pointers."""
    try:
        compiled = _compile(job)
    except Exception as raised:  # noqa: BLE001 - the compiler raises what it likes, and that is the result
        return Report(job, 0, 0, 0, f"{type(raised).__name__}: {str(raised).strip().splitlines()[0][:200]}")
    registers, stack = _usage(compiled.asm["cubin"])
    shared = int(compiled.metadata.shared)
    problem = ""
    if shared > SHARED_LIMIT[job.capability]:
        problem = f"{shared} bytes of shared memory"
    return Report(job, registers, stack, shared, problem)


def _compile(job: Job) -> Any:
    import triton  # type: ignore[import-not-found,unused-ignore]
    from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found,unused-ignore]

    from kernels.common.triton.expand import expand
    from kernels.common.triton.matmul import matmul
    from kernels.common.triton.matvec import matvec

    found = unit(job.encoding)
    function = {"expand": expand, "get_rows": expand, "matvec": matvec, "matmul": matmul}[job.loop]
    known: dict[str, Any] = constants(found) | {"align": alignment(found, 0), "emulated": False}
    types = {"blocks": "*u8", "x": TYPES[job.type], "y": "*fp32", "out": TYPES[job.type], "rows": "*i64"}
    known |= dict.fromkeys(("x_column", "y_column"), 1)
    if job.loop in ("expand", "get_rows"):
        known["columns"] = expand_groups(found)
        known |= {"rows": None} if job.loop == "expand" else {}
        warps, stages = EXPAND_WARPS, 1
    else:
        tile: Tile = tile_for(found, job.loop, job.rows_x)
        known |= {"rows_x": tile.rows_x, "rows_w": tile.rows_w, "columns": tile.groups, "whole": False}
        warps, stages = tile.warps, tile.stages
    names = [*found.tables.values(), None, None][:2]
    for argument, name in zip(("table", "signs"), names, strict=True):
        if name is None:
            known[argument] = None
        else:
            types[argument] = "*u8" if name == "ksigns" else "*i8"
    known = {name: value for name, value in known.items() if name in function.arg_names}
    signature = {
        name: "constexpr" if name in known else types.get(name, "i32") for name in function.arg_names
    }
    # Pointers, sizes and strides divisible by 16, as they are for whole tensors of real models; how many rows there are is not looked at.
    divisible = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(function.arg_names)
        if name not in known and name not in ("total_m", "total_n")
    }
    source = triton.compiler.ASTSource(function, signature, known, divisible)
    target = GPUTarget("cuda", job.capability, 32)
    return triton.compile(source, target=target, options={"num_warps": warps, "num_stages": stages})


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of stack of the one function of a cubin."""
    import triton

    tool = triton.knobs.nvidia.cuobjdump.path
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    if found is None:
        raise ValueError("cuobjdump names no registers")
    return int(found[1]), int(found[2])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description="Compile the Triton kernels without a GPU.")
    parser.add_argument("--encodings", default="", help="names such as q4_k, comma-separated; default all")
    parser.add_argument("--capabilities", default="80,90,100")
    parser.add_argument("--tiles", choices=("sample", "ends", "all"), default="ends")
    parser.add_argument("--loops", default="", help="expand,get_rows,matvec,matmul; default all")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", type=Path, help="write all reports there")
    chosen = parser.parse_args(arguments)
    if os.environ.get("TRITON_INTERPRET"):
        print("compile_all: TRITON_INTERPRET is set: nothing can be compiled", file=sys.stderr)
        return 2
    try:
        encodings = [unit(f"ggml.{name}").encoding for name in chosen.encodings.split(",") if name]
    except HarnessError as problem:
        print(f"compile_all: {problem}", file=sys.stderr)
        return problem.exit_code
    encodings = encodings or [found.encoding for found in load_units().values() if _has_triton(found)]
    capabilities = [int(text) for text in chosen.capabilities.split(",")]
    loops = chosen.loops.split(",") if chosen.loops else ["expand", "get_rows", "matvec", "matmul"]
    todo = [job for job in jobs(encodings, capabilities, chosen.tiles) if job.loop in loops]
    reports = []
    # Spawned, so that no process inherits the compiler's state.
    with concurrent.futures.ProcessPoolExecutor(chosen.jobs, multiprocessing.get_context("spawn")) as pool:
        for report in pool.map(compile_job, todo, chunksize=4):
            reports.append(report)
            job = report.job
            print(
                f"{job.encoding:14} {job.loop:8} {job.type:8} rows_x {job.rows_x:3} sm_{job.capability:<3}"
                f" registers {report.registers:3} stack {report.stack:4} shared {report.shared:6} {report.problem}",
                flush=True,
            )
    if chosen.json:
        chosen.json.write_text(json.dumps([dataclasses.asdict(report) for report in reports], indent=1))
    bad = sum(bool(report.problem) for report in reports)
    spilling = sum(report.stack > 0 for report in reports)
    print(f"{len(reports)} kernels, {bad} with a problem, {spilling} that spill registers")
    return 1 if bad or not reports else 0


def _has_triton(found: Unit) -> bool:
    return (found.path / "triton.py").is_file() and found.path.is_relative_to(KERNELS)


if __name__ == "__main__":
    sys.exit(main())
