"""Bugs that were public elsewhere, as cases: the table of them, what draws their operands, and their families."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from cases.generators import (
    Blocks,
    ascending,
    columns,
    every_code,
    random_blocks,
    scale_fields,
    set_scale,
    with_unit_scales,
)
from cases.ggml.compute import BOUND as CPU_BOUND
from cases.ggml.compute import constant_2100, gaussian, zero_activations
from cases.ggml.device import CUDA, CUDA_BOUND, TRITON_BOUND
from cases.ggml.family import decodes, present, products
from harness.rows.strict_yaml import read_mapping, validated
from kernels.quantizer import quantize
from kernels.units import Unit

DATA = Path(__file__).with_suffix(".yaml")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Bug(_Strict):
    """A bug whose condition is a case of ours: `name` is the value of the families' axis."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    where: tuple[str, ...] = Field(min_length=1)
    condition: str
    went_wrong: str
    op: Literal["dequantize", "matmul"]
    encodings: tuple[str, ...] = Field(min_length=1)


class Elsewhere(_Strict):
    """A bug whose condition is tested by other families of cases, or by a test of the harness."""

    where: tuple[str, ...] = Field(min_length=1)
    condition: str
    went_wrong: str
    tested_by: tuple[str, ...] = Field(min_length=1)


class PublicBugs(_Strict):
    """The whole table."""

    bugs: tuple[Bug, ...]
    elsewhere: tuple[Elsewhere, ...]

    @model_validator(mode="after")
    def _names_differ(self) -> PublicBugs:
        names = [bug.name for bug in self.bugs]
        if len(set(names)) != len(names):
            raise ValueError("every name once")
        return self


def read_bugs(file: Path = DATA) -> PublicBugs:
    """The table in `file`. Raises BadInput naming the field that is wrong."""
    return validated(PublicBugs, read_mapping(file), file=file)


@cache
def load_bugs() -> PublicBugs:
    """The table of this repository."""
    return read_bugs()


@dataclass(frozen=True)
class Operands:
    """x float32 [m, k] and the blocks of n rows of weights. `dtype` is that of x on a device, `runs` how often it runs."""

    x: npt.NDArray[np.float32]
    blocks: Blocks
    n: int
    dtype: str = "float16"
    runs: int = 1


def varied_minima(found: Unit, _rng: np.random.Generator) -> Blocks:
    """Ascending codes under a scale of one and minima that are all different."""
    blocks = ascending(found)
    for field in scale_fields(found):
        if field.role == "min":
            set_scale(blocks, field, (np.arange(len(blocks)) / 16 + 0.5).astype(np.float16).view(np.uint16))
    return blocks


def scale_bytes(values: tuple[int, ...]) -> Callable[[Unit, np.random.Generator], Blocks]:
    """Random codes under scales of one byte each, which take `values` in turn, other ones side by side in a block."""

    def draw(found: Unit, rng: np.random.Generator) -> Blocks:
        blocks = random_blocks(found, 64 * len(values), rng)
        (field,) = scale_fields(found)
        turn = np.arange(len(blocks))[:, None] + np.arange(field.bytes)
        blocks[:, columns(field)] = np.array(values, np.uint8)[turn % len(values)]
        return blocks

    return draw


def halves(found: Unit, rng: np.random.Generator) -> Blocks:
    """Codes 1 and 9 in every lane, and among others."""
    mixed = with_unit_scales(found, random_blocks(found, 64, rng))
    return np.concatenate([every_code(found)[[1, 9]], mixed])


DECODES: Mapping[str, Callable[[Unit, np.random.Generator], Blocks]] = {
    "q4_1_header": varied_minima,
    "nibble_order": lambda found, _: ascending(found),
    "e8m0_edges": scale_bytes((134, 255, 0, 1)),
    "e2m1_half": halves,
    "ue4m3_subnormal": scale_bytes((1, 2, 3, 4, 5, 6, 7)),
}
"""Bug of a decode -> what draws its blocks."""


def ordinary(
    m: int, n: int, k: int, dtype: str = "float16", runs: int = 1
) -> Callable[[Unit, np.random.Generator], Operands]:
    """Ordinary operands of a shape, which alone is the condition."""

    def draw(found: Unit, rng: np.random.Generator) -> Operands:
        x, blocks = gaussian(found, m, n, k, rng)
        return Operands(x, blocks, n, dtype, runs)

    return draw


def sum_of_a_block(found: Unit, rng: np.random.Generator) -> Operands:
    """Activations of 2100."""
    return Operands(*constant_2100(found, 9, 33, 768, rng), 33)


def large_product(found: Unit, rng: np.random.Generator) -> Operands:
    """Weights of about 8 times activations of 16, 1024 of them: about 131,000."""
    blocks = quantize(found.encoding, np.full((5, 1024), 8, np.float32)).reshape(-1, found.block_bytes)
    return Operands(np.full((9, 1024), 16, np.float32), blocks, 5)


def zeros(found: Unit, rng: np.random.Generator) -> Operands:
    """A row of zeros, and a block of zeros in each of the others."""
    return Operands(*zero_activations(found, 3, 33, 768, rng), 33)


def scales_of_two_rows(found: Unit, rng: np.random.Generator) -> Operands:
    """Two rows whose blocks of 32, and of 256, have other magnitudes."""
    x, blocks = gaussian(found, 2, 33, 768, rng)
    magnitudes = 2.0 ** ((np.arange(2)[:, None] * 5 + np.arange(24) * 3 + np.arange(24) // 8) % 11)
    return Operands((x * np.repeat(magnitudes, 32, axis=1)).astype(np.float32), blocks, 33)


PRODUCTS: Mapping[str, Callable[[Unit, np.random.Generator], Operands]] = {
    "constant_2100": sum_of_a_block,
    "dot_beyond_half": large_product,
    "zero_block": zeros,
    "rows_3": ordinary(3, 33, 768),
    "rows_4": ordinary(4, 33, 768),
    "rows_5": ordinary(5, 33, 768, "bfloat16"),
    "rows_127": ordinary(127, 5, 256, "bfloat16"),
    "rows_129": ordinary(129, 5, 256, "bfloat16"),
    "scales_of_two_rows": scales_of_two_rows,
    "scale_of_next_tile": ordinary(2, 33, 256),
    "trailing_columns": ordinary(1, 96, 1024),
    "few_columns": ordinary(2, 7, 768),
    "same_bits": ordinary(129, 256, 2048, "bfloat16", runs=4),
}
"""Bug of a product -> what draws its operands."""

_BUGS = {bug.name: bug for bug in load_bugs().bugs}


def _another(chosen: Mapping[str, str]) -> str | None:
    if chosen["encoding"] not in _BUGS[chosen["bug"]].encodings:
        return "another encoding's bug"
    if chosen["backend"] == "cuda@sm_90" and chosen["encoding"] not in CUDA:
        return "no CUDA kernel has this encoding"
    if chosen["backend"] == "triton@interpreter" and chosen["bug"] == "same_bits":
        return "the interpreter runs one program after the other: no synchronisation can be missing"
    return None


def _encodings(op: str, among: tuple[str, ...] | None = None) -> tuple[str, ...]:
    named = present(dict.fromkeys(name for bug in _BUGS.values() if bug.op == op for name in bug.encodings))
    return tuple(name for name in named if among is None or name in among)


def _axis(op: str, among: tuple[str, ...] | None = None) -> Mapping[str, tuple[str, ...]]:
    """The bugs of an op, without those that none of the encodings can have."""
    known = _encodings(op, among)
    return {
        "bug": tuple(b.name for b in _BUGS.values() if b.op == op and any(e in known for e in b.encodings))
    }


_CPU_FILES, _DEVICE_FILES = (
    (Path(__file__), DATA, Path(__file__).parent / f"test_public_bugs{where}.py") for where in ("", "_device")
)
_TRITON = ("triton@interpreter", "triton@sm_90")

_decode = functools.partial(
    decodes, encodings=_encodings("dequantize"), axes=_axis("dequantize"), refuse=_another
)
DECODE_CPU = _decode("ggml.public_bugs_decode_cpu", files=_CPU_FILES)
DECODE = _decode("ggml.public_bugs_decode", files=_DEVICE_FILES, backends=(*_TRITON, "cuda@sm_90"))

_product = functools.partial(products, refuse=_another)
CPU = _product(
    "ggml.public_bugs_cpu", _encodings("matmul"), _axis("matmul"), files=_CPU_FILES, bound=CPU_BOUND
)
TRITON = _product(
    "ggml.public_bugs_triton",
    _encodings("matmul"),
    _axis("matmul"),
    files=_DEVICE_FILES,
    backends=_TRITON,
    bound=TRITON_BOUND,
)
ON_CUDA = _product(
    "ggml.public_bugs_cuda",
    _encodings("matmul", CUDA),
    _axis("matmul", CUDA),
    files=_DEVICE_FILES,
    backends=("cuda@sm_90",),
    bound=CUDA_BOUND,
)
