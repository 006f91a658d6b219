"""Families of cases whose offsets do not fit 32 bits: in the encoded data, in the activations, and in the result.

Few rows are judged: the first ones, those around the offset of 2^31, and the last ones.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from cases.ggml.device import CUDA_BOUND, TRITON_BOUND
from cases.ggml.family import decodes, products
from kernels.units import Unit, encoded_bytes

LIMIT = 1 << 31
FAR = ("ggml.q8_0", "ggml.q4_k")
"""A block of 32 and one of 256 weights: addresses are computed by the loops and not by the decodes."""

WIDE, NARROW = 32768, 256
"""Widths: of weights that fill 2^31 bytes, and where something else is far."""
M = {"m3": 3, "m9": 9, "m33000": 33000}
NEAR = 8
"""So many rows at each of the places that are judged."""


def rows_beyond(found: Unit, k: int) -> int:
    """Rows of weights [n, k] of which at least NEAR lie beyond 2^31 bytes, and beyond 2^31 elements."""
    return max(LIMIT // encoded_bytes(found, (k,)), LIMIT // k) + 2 * NEAR


def places(count: int, unit_size: int) -> list[int]:
    """Of `count` rows of `unit_size` bytes or elements: those at the start, around 2^31, and at the end, ascending."""
    crossing = LIMIT // unit_size
    around = range(crossing - NEAR // 2, crossing + NEAR // 2)
    found = {*range(NEAR), *around, *range(count - NEAR, count)}
    return sorted(place for place in found if 0 <= place < count)


def _impossible(chosen: Mapping[str, str]) -> str | None:
    if (chosen["far"] == "results") != (chosen["m"] == "m33000"):
        return "a result is that large with many rows alone, and everything else is small with few"
    if chosen["backend"] == "triton@interpreter" and (chosen["far"], chosen["m"]) != ("activations", "m3"):
        return "the interpreter would need the memory, or the time"
    return None


_CPU_FILES, _DEVICE_FILES = (
    (Path(__file__), Path(__file__).parent / f"test_far_cases{where}.py") for where in ("", "_device")
)
_product = functools.partial(
    products,
    encodings=FAR,
    axes={"far": ("weights", "activations", "results"), "m": tuple(M)},
    files=_DEVICE_FILES,
    refuse=_impossible,
)
TRITON = _product(
    "ggml.far_products_triton", backends=("triton@interpreter", "triton@sm_90"), bound=TRITON_BOUND
)
CUDA = _product("ggml.far_products_cuda", backends=("cuda@sm_90",), bound=CUDA_BOUND)

_decode = functools.partial(decodes, encodings=FAR, axes={})
VALUES_CPU = _decode("ggml.far_values_cpu", files=_CPU_FILES)
ROWS_CPU = _decode("ggml.far_rows_cpu", files=_CPU_FILES, op="get_rows")
VALUES = _decode("ggml.far_values", files=_DEVICE_FILES, backends=("triton@sm_90", "cuda@sm_90"))
ROWS = _decode("ggml.far_rows", files=_DEVICE_FILES, backends=("triton@sm_90",), op="get_rows")
