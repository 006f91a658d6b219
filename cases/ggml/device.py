"""Families of cases for a GPU, and for Triton's interpreter: decodes bit for bit, products of real shapes within a bound."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cases.ggml.decode import VALUES, rows_of
from harness.comparison.bounds import BIT_EXACT
from harness.evidence.case import Family
from harness.rows.model import Dimension
from kernels.units import load_units, unit

UNITS = [found for found in load_units().values() if found.dialect == "ggml"]
TRITON = tuple(found.encoding for found in UNITS if (found.path / "triton.py").is_file())
CUDA = tuple(found.encoding for found in UNITS if (found.path / "decode.cuh").is_file())
WEIGHTS = tuple(found.encoding for found in UNITS if found.activation is not None)
"""Encodings of weights; those of activations have no product of their own."""

M = (1, 2, 3, 4, 7, 8, 16, 33, 128, 512)
SHAPES = {"n14336_k4096": (14336, 4096), "n4096_k14336": (4096, 14336), "n4096_k4096": (4096, 4096)}
"""Weights [n, k] of the layers of a model of 8 billion parameters: feed-forward up and down, attention."""
ACTIVATIONS = ("float16", "bfloat16")

INTERPRETED_M = (1, 3, 4, 17)
INTERPRETED_SHAPES = {"n5_one_block": (5, 1), "n33_three_blocks": (33, 3)}
"""Rows of weights, and their width in blocks of 256 or of the encoding's own: the interpreter is slow."""

TRITON_BOUND = "(r + (1 + r) * gamma_k(u=2^-24)) * sum|a||b| + flushed subnormals, r the rounding of a weight: 0, 2^-11 or 2^-8"
CUDA_BOUND = "gamma_c(u=2^-24) * sum of |scale * code| and |offset| times |a|, c = k / 1024 + 16, on the codes that were multiplied"
FILES = (Path(__file__), Path(__file__).parent / "test_device_cases.py")


def _unfit(chosen: Mapping[str, str]) -> str | None:
    return None if VALUES[chosen["values"]][1](unit(chosen["encoding"])) else "the encoding has no such field"


def _decode(name: str, backend: str, encodings: tuple[str, ...]) -> Family:
    return Family(
        name=name,
        op="dequantize",
        dimension=Dimension.MATERIALIZE,
        backends=(backend,),
        encodings=encodings,
        axes={
            "values": tuple(
                value for value, (_, fits) in VALUES.items() if any(map(fits, map(unit, encodings)))
            )
        },
        rows=rows_of,
        bound=BIT_EXACT.derivation,
        files=FILES,
        refuse=_unfit,
    )


def _product(
    name: str, backend: str, encodings: tuple[str, ...], axes: Mapping[str, tuple[str, ...]], bound: str
) -> Family:
    return Family(
        name=name,
        op="matmul",
        dimension=Dimension.COMPUTE,
        backends=(backend,),
        encodings=tuple(name for name in encodings if name in WEIGHTS),
        axes=axes,
        rows=rows_of,
        bound=bound,
        files=FILES,
    )


_REAL = {"shape": tuple(SHAPES), "activations": ACTIVATIONS, "m": tuple(f"m{m}" for m in M)}
_SMALL = {
    "shape": tuple(INTERPRETED_SHAPES),
    "activations": ("float16", "float32"),
    "m": tuple(f"m{m}" for m in INTERPRETED_M),
}

TRITON_DECODE = _decode("ggml.decode_triton", "triton@sm_90", TRITON)
CUDA_DECODE = _decode("ggml.decode_cuda", "cuda@sm_90", CUDA)
TRITON_MATMUL = _product("ggml.matmul_triton", "triton@sm_90", TRITON, _REAL, TRITON_BOUND)
CUDA_MATMUL = _product("ggml.matmul_cuda", "cuda@sm_90", CUDA, _REAL, CUDA_BOUND)
INTERPRETED_DECODE = _decode("ggml.decode_interpreted", "triton@interpreter", TRITON)
INTERPRETED_MATMUL = _product("ggml.matmul_interpreted", "triton@interpreter", TRITON, _SMALL, TRITON_BOUND)
