"""Families of products on quantized operands: the axes of rows, columns and widths, and operands that break kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cases.generators import (
    Blocks,
    code_fields,
    ordinary_blocks,
    scale_fields,
    special_scales,
    uniform_bytes,
    value_fields,
    with_unit_scales,
)
from cases.ggml.family import NO_SUCH_FIELD, products
from kernels.quantizer import quantize
from kernels.units import Unit, load_units, unit

ENCODINGS = tuple(
    name
    for name, found in load_units().items()
    if found.dialect == "ggml" and "cpu" in found.ops.get("matmul", ())
)
"""Encodings of weights that have a product: the activation encodings have none."""

M = (*range(1, 17), 31, 32, 33, 63, 64, 65, 127, 128, 129, 257)
N = (*range(1, 10), 32, 96, 160)
BLOCKS = {"one_block": 1, "three_blocks": 3, "wide": 8}
"""Width of a row in blocks of 256 weights, or of the encoding's own block where that is shorter, times eight."""

Activations = npt.NDArray[np.float32]
Draw = Callable[[Unit, int, int, int, np.random.Generator], tuple[Activations, Blocks]]


def width(found: Unit, blocks: str) -> int:
    """The weights in a row: whole super-blocks for every encoding, so that all are tried at the same widths."""
    least = found.block_elems if found.block_elems > 1 else 32
    return least if blocks == "one_block" else 256 * BLOCKS[blocks]


def gaussian(found: Unit, m: int, n: int, k: int, rng: np.random.Generator) -> tuple[Activations, Blocks]:
    """Activations N(0, 1) `[m, k]`, and weights with ordinary scales: uint8 `[n * blocks of a row, block_bytes]`."""
    x = rng.standard_normal((m, k)).astype(np.float32)
    if value_fields(found):  # no scale that could be ordinary: the weights themselves are
        weights = (0.1 * rng.standard_normal((n, k))).astype(np.float32)
        return x, quantize(found.encoding, weights).reshape(-1, found.block_bytes)
    return x, ordinary_blocks(found, n * k // found.block_elems, rng)


def outlier(found: Unit, m: int, n: int, k: int, rng: np.random.Generator) -> tuple[Activations, Blocks]:
    """One activation of a row is a thousand times the others."""
    x, w = gaussian(found, m, n, k, rng)
    x[:, k // 3] *= 1000
    return x, w


def zero_activations(
    found: Unit, m: int, n: int, k: int, rng: np.random.Generator
) -> tuple[Activations, Blocks]:
    """A block, and a whole row, of zeros: the scale of the activations is zero."""
    x, w = gaussian(found, m, n, k, rng)
    x[0] = 0
    x[:, : min(k, 256)] = 0
    return x, w


def zero_weights(found: Unit, m: int, n: int, k: int, rng: np.random.Generator) -> tuple[Activations, Blocks]:
    """A row of blocks whose every byte is zero."""
    x, w = gaussian(found, m, n, k, rng)
    w[: k // found.block_elems] = 0
    return x, w


def constant_2100(
    found: Unit, m: int, n: int, k: int, rng: np.random.Generator
) -> tuple[Activations, Blocks]:
    """Activations of 2100 throughout: the block sum of Q8_1 is beyond half precision (llama.cpp #22571)."""
    return np.full((m, k), 2100.0, np.float32), gaussian(found, m, n, k, rng)[1]


def tiny(found: Unit, m: int, n: int, k: int, rng: np.random.Generator) -> tuple[Activations, Blocks]:
    """Activations of about 1e-6: their scales are near the smallest that half precision holds."""
    x, w = gaussian(found, m, n, k, rng)
    return x * np.float32(1e-6), w


def largest_codes(
    found: Unit, m: int, n: int, k: int, rng: np.random.Generator
) -> tuple[Activations, Blocks]:
    """Every code of the weights is the largest, and so is every code of the activations: the longest integer sums."""
    n_blocks = n * k // found.block_elems
    blocks = with_unit_scales(found, np.full((n_blocks, found.block_bytes), 0xFF, np.uint8))
    fields = code_fields(found)
    if fields:
        top = (1 << sum(field.bits or 0 for field in fields)) - 1
        for field, byte in zip(fields, uniform_bytes(fields, top), strict=True):
            blocks[:, field.offset : field.offset + field.bytes] = byte
    return np.full((m, k), 1.0, np.float32), blocks


def any_scale(found: Unit, m: int, n: int, k: int, rng: np.random.Generator) -> tuple[Activations, Blocks]:
    """Scales of every special kind, one a row of weights where there are enough rows."""
    x, w = gaussian(found, m, n, k, rng)
    special = special_scales(found, rng)
    per_row = k // found.block_elems
    for row, block in zip(range(n), rng.permutation(len(special)), strict=False):
        w[row * per_row] = special[block]
    return x, w


VALUES: Mapping[str, tuple[Draw, Callable[[Unit], bool]]] = {
    "outlier": (outlier, lambda _: True),
    "zero_activations": (zero_activations, lambda _: True),
    "zero_weights": (zero_weights, lambda _: True),
    "constant_2100": (constant_2100, lambda _: True),
    "tiny": (tiny, lambda _: True),
    "largest_codes": (largest_codes, lambda found: bool(code_fields(found))),
    "special_scales": (any_scale, lambda found: bool(scale_fields(found))),
}
"""Value of the axis -> what draws the operands, and the encodings that it applies to."""


def unfit(chosen: Mapping[str, str]) -> str | None:
    """Why an encoding has no operands of a value of the axis; None where it has."""
    return None if VALUES[chosen["values"]][1](unit(chosen["encoding"])) else NO_SUCH_FIELD


BOUND = "gamma_c(u=2^-24) * sum|a||b| + underflow, for ours and the engine's: kernels/cpu_matmul_bound.py"
FILES = (Path(__file__), Path(__file__).parent / "test_compute_cases.py")

_cpu = functools.partial(products, encodings=ENCODINGS, files=FILES, bound=BOUND)
ROWS_OF_X = _cpu(
    "ggml.matmul_m", axes={"m": tuple(f"m{m}" for m in M), "width": ("one_block", "three_blocks")}
)
ROWS_OF_W = _cpu("ggml.matmul_n", axes={"n": tuple(f"n{n}" for n in N), "width": ("wide",)})
OPERANDS = _cpu("ggml.matmul_values", axes={"values": tuple(VALUES)}, refuse=unfit)
