"""Families of products at the edges of tiles, of views, and of operands out of the ordinary, on devices.

What the cpu computes has such families in `compute.py`; here are the loops of Triton and CUDA, which cover their operands with
tiles: 1, 2, 4 or 8 and 16, 32, 64 or 128 rows of activations, 4 and 64 or 128 rows of weights, and up to 128 groups of weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from cases.ggml import compute
from cases.ggml.device import CUDA, CUDA_BOUND, TRITON_BOUND, TRITON_WEIGHTS
from cases.ggml.family import products
from kernels.units import Unit

EACH_SHAPE = (
    "ggml.f16",
    "ggml.q4_0",
    "ggml.q8_0",
    "ggml.mxfp4",
    "ggml.nvfp4",
    "ggml.q4_k",
    "ggml.q6_k",
    "ggml.iq2_xxs",
)
"""One encoding of each way in which a loop reads blocks: one weight; 32 in 18, 34 and 17 bytes, the last without any
alignment; four scales in 64; 256 aligned to 16 bytes and to 2; a lookup table."""
VIEWED = ("ggml.q4_0", "ggml.mxfp4", "ggml.q4_k")
"""Aligned to 2 bytes, to none, to 16."""

M = (*range(1, 18), 31, 32, 33, 63, 64, 65, 127, 128, 129, 257, 33000)
INTERPRETED_M = (2, 5, 8, 9, 16, 31)
N = (*range(1, 10), 32, 63, 64, 65, 96, 127, 128, 129, 160)
INTERPRETED_N = (1, 3, 4, 6, 8, 9)
BLOCKS = (1, 2, 5, 16, 17, 19)
"""Width in blocks: 528, 544 and 608 are among the widths for blocks of 32 and of one weight, 256 times odd for those of 256."""
INTERPRETED_BLOCKS = (1, 2, 5)

ROWS, INTERPRETED_ROWS = 70, 5
"""Rows of weights where these are no axis; no multiple of a tile."""
SMALL_M = {"m3": "float16", "m9": "bfloat16"}
"""Rows of activations where these are no axis, one for each loop of Triton, and their type."""
TALL_M = "m129"
"""A third one, which gets the tile of 128 rows of weights."""

OPERANDS = tuple(name for name in compute.VALUES if name != "special_scales")
"""Those of the cpu, but for scales that are infinite or no number: a product has no bound then."""

X_VIEWS = ("every_second_row", "one_element_further", "one_row_repeated", "every_third_column", "transposed")
DATA_VIEWS = ("rows_from_the_middle", "one_block_further", "one_byte_further")
REFUSED_BY_CUDA = {
    "every_third_column": r"x: got column stride 3, wanted 1",
    "transposed": r"x: got column stride \d+, wanted 1",
    "one_byte_further": r"data: got an odd address, wanted an address that is a multiple of",
}
"""View -> how the CUDA wrapper refuses it by name. Triton takes all views."""


def dtype_of(m: int) -> str:
    """Half precision for the loop of few rows, bfloat16 for the other one."""
    return "float16" if m <= 4 else "bfloat16"


def width_of(found: Unit, blocks: int) -> int:
    """The weights in so many blocks; for encodings of single weights 33 of them count as a block."""
    return blocks * (found.block_elems if found.block_elems > 1 else 33)


def whole_width(found: Unit) -> int:
    """Where the width is no axis: 768 weights, which is a number of whole blocks for every encoding."""
    return compute.width(found, "three_blocks")


def _slow(axis: str, values: tuple[int, ...]) -> Callable[[Mapping[str, str]], str | None]:
    """Refuses what the interpreter has no time for: other values of an axis than these, and a tall m."""

    def refuse(chosen: Mapping[str, str]) -> str | None:
        if chosen["backend"] != "triton@interpreter":
            return None
        wanted = {f"{axis}{value}" for value in values}
        slow = chosen[axis] not in wanted or (axis != "m" and chosen["m"] == TALL_M)
        return "the interpreter is slow" if slow else None

    return refuse


def _wide(chosen: Mapping[str, str]) -> str | None:
    slow = _slow("blocks", INTERPRETED_BLOCKS)(chosen)
    if slow is None and chosen["backend"] == "triton@interpreter" and chosen["encoding"] not in EACH_SHAPE:
        return "the interpreter is slow"
    return slow


def _unfit(chosen: Mapping[str, str]) -> str | None:
    if chosen["backend"] == "triton@interpreter" and chosen["encoding"] not in EACH_SHAPE:
        return "the interpreter is slow"
    return compute.unfit(chosen)


_FILES = (Path(__file__), Path(__file__).parent / "test_adversarial_cases.py")
_triton = functools.partial(
    products, files=_FILES, backends=("triton@interpreter", "triton@sm_90"), bound=TRITON_BOUND
)
_cuda = functools.partial(products, files=_FILES, backends=("cuda@sm_90",), bound=CUDA_BOUND)

_OF_X = {"m": tuple(f"m{m}" for m in M)}
ROWS_OF_X = (
    _triton("ggml.rows_of_x_triton", EACH_SHAPE, _OF_X, refuse=_slow("m", INTERPRETED_M)),
    _cuda("ggml.rows_of_x_cuda", CUDA, _OF_X),
)
_OF_W = {"n": tuple(f"n{n}" for n in N), "m": (*SMALL_M, TALL_M)}
ROWS_OF_W = (
    _triton("ggml.rows_of_w_triton", EACH_SHAPE, _OF_W, refuse=_slow("n", INTERPRETED_N)),
    _cuda("ggml.rows_of_w_cuda", CUDA, _OF_W),
)
_WIDTHS = {"blocks": tuple(f"blocks{blocks}" for blocks in BLOCKS), "m": tuple(SMALL_M)}
WIDTHS = (
    _triton("ggml.widths_triton", TRITON_WEIGHTS, _WIDTHS, refuse=_wide),
    _cuda("ggml.widths_cuda", CUDA, _WIDTHS),
)
_VALUES = {"values": OPERANDS, "m": tuple(SMALL_M)}
VALUES = (
    _triton("ggml.operands_triton", TRITON_WEIGHTS, _VALUES, refuse=_unfit),
    _cuda("ggml.operands_cuda", CUDA, _VALUES, refuse=_unfit),
)
_VIEWS = {"view": (*X_VIEWS, *DATA_VIEWS), "m": tuple(SMALL_M)}
VIEWS = (
    _triton("ggml.views_triton", VIEWED, _VIEWS),
    _cuda("ggml.views_cuda", CUDA, _VIEWS),
)
