"""Families of cases for a GPU, and for Triton's interpreter: decodes bit for bit, products of real shapes within a bound."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from cases.ggml.decode import VALUES, unfit
from cases.ggml.family import decodes, products
from kernels.units import load_units, unit

UNITS = [found for found in load_units().values() if found.dialect == "ggml"]
TRITON = tuple(found.encoding for found in UNITS if (found.path / "triton.py").is_file())
CUDA = tuple(found.encoding for found in UNITS if (found.path / "decode.cuh").is_file())
WEIGHTS = tuple(found.encoding for found in UNITS if found.activation is not None)
"""Encodings of weights; those of activations have no product of their own."""
TRITON_WEIGHTS = tuple(name for name in TRITON if name in WEIGHTS)

M = (1, 2, 3, 4, 7, 8, 16, 33, 128, 512)
SHAPES = {"n14336_k4096": (14336, 4096), "n4096_k14336": (4096, 14336), "n4096_k4096": (4096, 4096)}
"""Weights [n, k] of the layers of a model of 8 billion parameters: feed-forward up and down, attention."""
ACTIVATIONS = ("float16", "bfloat16")

INTERPRETED_M = (1, 3, 4, 17)
INTERPRETED_SHAPES = {"n5_one_block": (5, 1), "n33_three_blocks": (33, 3)}
"""Rows of weights, and their width in blocks of 256 or of the encoding's own: the interpreter is slow."""

TRITON_BOUND = "(r + (1 + r) * gamma_k(u=2^-24)) * sum|a||b| + flushed subnormals, r the rounding of a weight: 0, 2^-10 or 2^-8"
CUDA_BOUND = "gamma_c(u=2^-24) * sum of |scale * code| and |offset| times |a|, c = k / 1024 + 16, on the codes that were multiplied"
FILES = (Path(__file__), Path(__file__).parent / "test_device_cases.py")


_REAL = {"shape": tuple(SHAPES), "activations": ACTIVATIONS, "m": tuple(f"m{m}" for m in M)}
_SMALL = {
    "shape": tuple(INTERPRETED_SHAPES),
    "activations": ("float16", "float32"),
    "m": tuple(f"m{m}" for m in INTERPRETED_M),
}


def _values(encodings: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    """The axis of decoded values, without those that none of the encodings has."""
    units = [unit(name) for name in encodings]
    return {"values": tuple(value for value, (_, fits) in VALUES.items() if any(map(fits, units)))}


_decodes = functools.partial(decodes, files=FILES, refuse=unfit)
_products = functools.partial(products, files=FILES)

TRITON_DECODE = _decodes("ggml.decode_triton", TRITON, _values(TRITON), backends=("triton@sm_90",))
CUDA_DECODE = _decodes("ggml.decode_cuda", CUDA, _values(CUDA), backends=("cuda@sm_90",))
INTERPRETED_DECODE = _decodes(
    "ggml.decode_interpreted", TRITON, _values(TRITON), backends=("triton@interpreter",)
)
TRITON_MATMUL = _products(
    "ggml.matmul_triton", TRITON_WEIGHTS, _REAL, backends=("triton@sm_90",), bound=TRITON_BOUND
)
CUDA_MATMUL = _products("ggml.matmul_cuda", CUDA, _REAL, backends=("cuda@sm_90",), bound=CUDA_BOUND)
INTERPRETED_MATMUL = _products(
    "ggml.matmul_interpreted", TRITON_WEIGHTS, _SMALL, backends=("triton@interpreter",), bound=TRITON_BOUND
)
