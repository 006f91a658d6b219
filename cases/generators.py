"""Encoded data that tells a wrong decode from a right one, made from nothing but the fields of a unit.

Every function returns whole blocks, uint8 [n, block_bytes]. What each promises is counted by `cases.census`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cases.special_values import SPECIAL
from kernels.units import TYPE_BYTES, Field, Unit

Blocks = NDArray[np.uint8]

_WORD = {1: "<u1", 2: "<u2", 4: "<u4"}


@dataclass(frozen=True)
class Case:
    """Named blocks, uint8 [n, block_bytes]."""

    name: str
    blocks: Blocks


def suite(unit: Unit, *, random: int, seed: int) -> Iterator[Case]:
    """All cases of an encoding, one at a time; `random` is how many of the blocks are random ones."""
    rng = np.random.default_rng(seed)
    yield Case("random bytes", random_blocks(unit, random // 2, rng))
    yield Case("random codes, ordinary scales", ordinary_blocks(unit, random - random // 2, rng))
    yield Case("every byte value in every byte", every_byte(unit))
    yield Case("ascending bytes", ascending(unit))
    if code_fields(unit):
        yield Case("every code in every lane", every_code(unit))
    if scale_fields(unit):
        yield Case("special scales", special_scales(unit, rng))
    if any(float_type(field) == "f16" for field in scale_fields(unit)):
        yield Case("every half-precision scale", every_half_scale(unit, rng))
    if value_fields(unit):
        yield Case("special values", special_values(unit))


def scale_fields(unit: Unit) -> tuple[Field, ...]:
    """The fields that hold a floating-point scale or minimum."""
    return tuple(field for field in unit.fields if field.role in ("scale", "min", "sub_scale_and_scale"))


def value_fields(unit: Unit) -> tuple[Field, ...]:
    """The fields that hold a weight itself."""
    return tuple(field for field in unit.fields if field.role == "value")


def integer_fields(unit: Unit) -> tuple[Field, ...]:
    """The fields whose every byte value is an ordinary one."""
    return tuple(field for field in unit.fields if field.role not in ("scale", "min"))


def code_fields(unit: Unit) -> tuple[Field, ...]:
    """The fields of codes that are packed alike in every byte, the low bits first."""
    packed = [f for f in unit.fields if f.role in ("code", "code_high") and f.bits is not None]
    return tuple(sorted(packed, key=lambda field: field.role))


def columns(field: Field) -> slice:
    """The bytes of a field within its block."""
    return slice(field.offset, field.offset + field.bytes)


def random_blocks(unit: Unit, n: int, rng: np.random.Generator) -> Blocks:
    """Uniform bytes everywhere: one scale in 32 is an infinity or a NaN where scales are half precision."""
    return rng.integers(0, 256, (n, unit.block_bytes), dtype=np.uint8)


def ordinary_blocks(unit: Unit, n: int, rng: np.random.Generator) -> Blocks:
    """Uniform codes under scales such as weights have: finite, of both signs, about 0.01."""
    blocks = random_blocks(unit, n, rng)
    for field in scale_fields(unit):
        if field.type in ("e8m0", "ue4m3"):
            low, high = (107, 135) if field.type == "e8m0" else (1, 0x7E)
            blocks[:, columns(field)] = rng.integers(low, high, (n, field.count), dtype=np.uint8)
        else:
            float_type = np.float32 if field.type == "f32" else np.float16
            values = (0.01 * rng.standard_normal(n)).astype(float_type)
            set_scale(blocks, field, values.view(f"<u{values.itemsize}"))
    return blocks


def every_byte(unit: Unit) -> Blocks:
    """Block v has the byte v in every byte of its integer fields; its scales are one."""
    blocks = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None], (256, unit.block_bytes)).copy()
    return with_unit_scales(unit, blocks)


def ascending(unit: Unit) -> Blocks:
    """Integer byte i of block b is 37 * i + b modulo 256: neighbours differ, so that every order of packing shows."""
    steps = 37 * np.arange(unit.block_bytes) + np.arange(256)[:, None]
    return with_unit_scales(unit, (steps & 255).astype(np.uint8))


def every_code(unit: Unit) -> Blocks:
    """Block c has the code c in every lane, under scales of one; the rest of the block is zero."""
    fields = code_fields(unit)
    total = sum(field.bits or 0 for field in fields)
    blocks = with_unit_scales(unit, np.zeros((1 << total, unit.block_bytes), np.uint8))
    for code in range(1 << total):
        for field, byte in zip(fields, uniform_bytes(fields, code), strict=True):
            blocks[code, columns(field)] = byte
    return blocks


def uniform_bytes(fields: Sequence[Field], code: int) -> list[int]:
    """For each code field, lowest bits first, the byte that holds its part of `code` in every position."""
    parts = []
    for field in fields:
        bits = field.bits or 8
        parts.append((code & ((1 << bits) - 1)) * (255 // ((1 << bits) - 1)))
        code >>= bits
    return parts


def special_scales(unit: Unit, rng: np.random.Generator) -> Blocks:
    """Every combination of the special bit patterns of the scale fields, each over four blocks of random codes."""
    fields = scale_fields(unit)
    combinations = np.array(list(itertools.product(*(SPECIAL[float_type(f)].values() for f in fields))))
    combinations = np.repeat(combinations, 4, axis=0)
    blocks = random_blocks(unit, len(combinations), rng)
    for field, patterns in zip(fields, combinations.T, strict=True):
        set_scale(blocks, field, patterns)
    return blocks


def every_half_scale(unit: Unit, rng: np.random.Generator) -> Blocks:
    """A block for every bit pattern of a half-precision scale, in an order of its own for each such field.

    No two blocks have the same scale, so that one read from a neighbour shows.
    """
    blocks = random_blocks(unit, 1 << 16, rng)
    for field in scale_fields(unit):
        if float_type(field) == "f16":
            set_scale(blocks, field, rng.permutation(1 << 16))
    return blocks


def special_values(unit: Unit) -> Blocks:
    """One block for each bit pattern of a 16-bit value, or for each special one of a wider value."""
    (field,) = value_fields(unit)
    patterns = SPECIAL["f32"].values() if field.type == "f32" else range(1 << 16)
    blocks = np.zeros((len(patterns), unit.block_bytes), np.uint8)
    set_scale(blocks, field, np.fromiter(patterns, np.int64))
    return blocks


def with_unit_scales(unit: Unit, blocks: Blocks) -> Blocks:
    """`blocks` with every scale one and every minimum zero, in place."""
    for field in scale_fields(unit):
        if field.role == "sub_scale_and_scale":
            continue
        one = {"f16": 0x3C00, "f32": 0x3F800000, "e8m0": 127, "ue4m3": 0x38}[field.type]
        set_scale(blocks, field, np.full(len(blocks), 0 if field.role == "min" else one))
    return blocks


def set_scale(blocks: Blocks, field: Field, patterns: NDArray[np.integer]) -> None:
    """Write the bit pattern `patterns[b]` to every item of the scale field of block b, in place."""
    if field.role == "sub_scale_and_scale":
        # The half-precision scale lies in the upper nibbles of the field's four words, lowest nibble first.
        words = blocks[:, columns(field)].view("<u2")
        words &= 0x0FFF
        words |= ((patterns[:, None] >> np.arange(0, 16, 4)) << 12).astype(np.uint16)
        return
    word = _WORD[TYPE_BYTES[field.type]]
    blocks[:, columns(field)].view(word)[:] = patterns[:, None]


def float_type(field: Field) -> str:
    return "f16" if field.role == "sub_scale_and_scale" else field.type
