"""A unit's `decode.cuh` compiled as plain C++, so that it is held against the reference on any machine with a compiler.

It proves the decode's arithmetic, not the kernel: evidence for `cuda@sm_90` comes from a GPU alone.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.errors import Unavailable
from harness.paths import REPOSITORY
from kernels.common.cuda.build import type_name
from kernels.units import Unit


def host_compiler() -> str | None:
    """g++ or clang++, when one is on PATH."""
    return shutil.which("g++") or shutil.which("clang++")


def compile_for_host(units: list[Unit], folder: Path) -> ctypes.CDLL:
    """One library with `decode_<type>(blocks, out, groups)` for each unit. Raises Unavailable when it does not compile."""
    compiler = host_compiler()
    if compiler is None:
        raise Unavailable("there is no C++ compiler on PATH")
    lines = ['#include "kernels/common/cuda/dequantize.cuh"']
    for unit in units:
        name = type_name(unit)
        lines.append(f'#include "{(unit.path / "decode.cuh").relative_to(REPOSITORY).as_posix()}"')
        lines.append(
            f'extern "C" void decode_{name}(const uint8_t* blocks, float* out, int64_t groups) {{'
            f" for (int64_t at = 0; at < groups; ++at) harness::decode_group<{name}>(blocks, at, out); }}"
        )
    source, target = folder / "host.cpp", folder / "host.so"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Werror", "-shared", "-fPIC"]
    done = subprocess.run(
        [*command, f"-I{REPOSITORY}", str(source), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"{compiler} failed: {done.stderr.strip().splitlines()[0]}")
    return ctypes.CDLL(str(target))


def decode_on_host(library: ctypes.CDLL, unit: Unit, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Blocks `[n, block_bytes] uint8` to `[n, block_elems] float32` by the unit's own CUDA source."""
    out = np.full((len(blocks), unit.block_elems), np.nan, np.float32)
    function = getattr(library, f"decode_{type_name(unit)}")
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function.restype = None
    function(blocks.ctypes.data, out.ctypes.data, out.size // 32)
    return out
