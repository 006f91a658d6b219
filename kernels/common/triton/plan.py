"""Which loop, which tile and how many splits a product gets: tables, and the rules that read them.

No torch and no Triton here, so that a plan can be asked for, explained and compiled for any device.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from functools import cache
from typing import Any, Final, Literal

from kernels.units import Unit

Loop = Literal["matvec", "matmul"]
ACTIVATIONS: Final = ("float16", "bfloat16", "float32")
MIN_CAPABILITY: Final = 80
"""bfloat16 and tf32 matrix units, and asynchronous copies."""

MATVEC_MAX_M: Final = 4
"""Up to this many rows of 16-bit activations are multiplied in float32 without the matrix units.

By count of instructions a weight, compiled for sm_90: 7 to 14 with one row, 13 with four, 19 to 25 with eight; through the
matrix units 8 to 10 with up to sixteen.
"""

MAX_ROWS: Final = 65535 * 8
"""A CUDA grid has at most 65535 tiles of M, of at least eight rows each."""


@dataclasses.dataclass(frozen=True)
class Tile:
    """`rows_x` rows of activations times `rows_w` rows of weights; `groups` groups of weights a step along K."""

    rows_x: int
    rows_w: int
    groups: int
    warps: int
    stages: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a product is computed. `weight_roundoff`: the largest relative error of a weight as the products see it."""

    loop: Loop
    tile: Tile
    splits: int
    split_blocks: int
    weight_roundoff: float

    @property
    def kernel(self) -> str:
        """The name that evidence carries."""
        return f"triton.{self.loop}"


MATVEC_TILES: Final = (
    Tile(1, 4, 128, 4, 1),
    Tile(2, 4, 128, 4, 1),
    Tile(4, 4, 128, 4, 1),
    Tile(8, 4, 128, 4, 1),
)
MATMUL_TILES: Final = (
    Tile(16, 64, 16, 4, 1),
    Tile(32, 64, 16, 4, 1),
    Tile(64, 64, 16, 4, 1),
    Tile(128, 128, 16, 8, 1),
)
EXPAND_GROUPS: Final = 128
EXPAND_WARPS: Final = 4
INTERPRETED_EXPAND_GROUPS: Final = 4096
"""The interpreter spends its time on programs, not on what is in them."""

SINGLE_WEIGHT_GROUPS: Final = {"matvec": 512, "matmul": 64, "expand": 1024}
"""Groups a tile where a group is a single weight (F32, F16, BF16)."""

MAX_SPLITS: Final = 8
RESIDENT_WARPS: Final = 12
"""So many warps of the matmul loop fit on a multiprocessor at once, by their registers; with fewer, memory waits."""
MIN_SPLIT_TILES: Final = 4
"""Shorter runs along K than this many tiles cost more in their sums than they bring in parallel work."""

WEIGHT_ROUNDOFF: Final = {
    # matvec: float32 throughout.
    ("matvec", "float16"): 0.0,
    ("matvec", "bfloat16"): 0.0,
    ("matvec", "float32"): 0.0,
    # Half the spacing of 8 significant bits, relative.
    ("matmul", "bfloat16"): 2.0**-8,
    # tf32: 11 significant bits, the others cut off.
    ("matmul", "float16"): 2.0**-10,
}


@cache
def decoder(unit: Unit) -> Any:
    """The module `triton.py` of a unit: `decode`, `GROUPS` and `POSITIONS`."""
    return importlib.import_module(f"kernels.{unit.encoding}.triton")


def plan_matmul(
    unit: Unit,
    m: int,
    n: int,
    k: int,
    activation: str,
    processors: int,
    splits: int | None = None,
    tile: Tile | None = None,
    loop: Loop | None = None,
) -> Plan:
    """The plan of y [m, n] = x [m, k] @ w [n, k]^T on a device of `processors` multiprocessors.

    `splits` asks for that many runs along K, as far as there are tiles for them, `tile` and `loop` for those; None
    leaves it to the rules.
    """
    if loop is None:
        loop = "matvec" if activation == "float32" or m <= MATVEC_MAX_M else "matmul"
    tile = tile or tile_for(unit, loop, m)
    row_blocks = k // unit.block_elems
    tile_blocks = tile.groups // decoder(unit).GROUPS
    row_tiles = max(1, math.ceil(row_blocks / tile_blocks))
    if loop == "matvec":
        splits = 1
    elif splits is None:
        programs = math.ceil(n / tile.rows_w) * math.ceil(m / tile.rows_x)
        resident = processors * max(1, RESIDENT_WARPS // tile.warps)
        splits = min(MAX_SPLITS, resident // programs, row_tiles // MIN_SPLIT_TILES)
    split_blocks = math.ceil(row_tiles / max(1, min(splits, row_tiles))) * tile_blocks
    return Plan(
        loop,
        tile,
        max(1, math.ceil(row_blocks / split_blocks)),
        split_blocks,
        WEIGHT_ROUNDOFF[loop, activation],
    )


def tile_for(unit: Unit, loop: str, m: int) -> Tile:
    """The smallest tile of a loop that takes `m` rows of activations at once, else its largest."""
    tiles = MATVEC_TILES if loop == "matvec" else MATMUL_TILES
    tile = next((tile for tile in tiles if tile.rows_x >= m), tiles[-1])
    return dataclasses.replace(tile, groups=_groups(unit, tile.groups, loop))


def expand_groups(unit: Unit, interpreted: bool = False) -> int:
    """Groups a program of the dequantize loop."""
    return INTERPRETED_EXPAND_GROUPS if interpreted else _groups(unit, EXPAND_GROUPS, "expand")


def _groups(unit: Unit, groups: int, loop: str) -> int:
    if decoder(unit).POSITIONS == 1:
        return SINGLE_WEIGHT_GROUPS[loop]
    return max(groups, int(decoder(unit).GROUPS))


def constants(unit: Unit) -> dict[str, Any]:
    """The compile-time arguments that every loop takes from the encoding."""
    module = decoder(unit)
    return {
        "decode": module.decode,
        "block_elems": unit.block_elems,
        "block_bytes": unit.block_bytes,
        "groups": module.GROUPS,
        "positions": module.POSITIONS,
        "run": min(4, module.POSITIONS),
    }


def alignment(unit: Unit, address: int) -> int:
    """What every block is aligned to, in bytes, when the first one lies at `address`: at most 16."""
    return math.gcd(unit.block_bytes, address, 16)
