"""Counts whether generated blocks hold what they promise: a generator that cannot produce its case proves nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cases.generators import (
    Blocks,
    code_fields,
    columns,
    float_type,
    integer_fields,
    scale_fields,
    uniform_bytes,
    value_fields,
)
from cases.special_values import SPECIAL
from kernels.units import TYPE_BYTES, Field, Unit


def missing(unit: Unit, suite: Iterable[Blocks]) -> list[str]:
    """What `suite` [n, block_bytes] promises and does not hold, in words; empty when every axis value occurs.

    Axes: all 256 values of every byte that is no floating-point scale; every code in every lane at once; every
    combination of special scales; every special value.
    """
    blocks = np.concatenate([part.reshape(-1, unit.block_bytes) for part in suite])
    return [*_bytes(unit, blocks), *_codes(unit, blocks), *_scales(unit, blocks), *_values(unit, blocks)]


def read_scale(blocks: Blocks, field: Field) -> NDArray[np.int64]:
    """The bit pattern of the first item of a scale field, [n]."""
    raw = np.ascontiguousarray(blocks[:, columns(field)])
    if field.role == "sub_scale_and_scale":
        nibbles = raw.view("<u2").astype(np.int64) >> 12
        return np.asarray((nibbles << np.arange(0, 16, 4)).sum(axis=1))
    return raw.view(f"<u{TYPE_BYTES[field.type]}")[:, 0].astype(np.int64)


def _bytes(unit: Unit, blocks: Blocks) -> Iterable[str]:
    for field in integer_fields(unit):
        if field.role == "value":
            continue
        for position in range(field.offset, field.offset + field.bytes):
            absent = np.flatnonzero(np.bincount(blocks[:, position], minlength=256) == 0)
            if absent.size:
                yield f"byte {position} ({field.name}) is never 0x{absent[0]:02X} ({absent.size} values missing)"


def _codes(unit: Unit, blocks: Blocks) -> Iterable[str]:
    fields = code_fields(unit)
    for code in range(1 << sum(field.bits or 0 for field in fields)) if fields else ():
        alike = np.ones(len(blocks), np.bool_)
        for field, byte in zip(fields, uniform_bytes(fields, code), strict=True):
            alike &= (blocks[:, columns(field)] == byte).all(axis=1)
        if not alike.any():
            yield f"no block has the code {code} in every lane"


def _scales(unit: Unit, blocks: Blocks) -> Iterable[str]:
    fields = scale_fields(unit)
    if not fields:
        return
    seen = set(zip(*(read_scale(blocks, field).tolist() for field in fields), strict=True))
    for names in itertools.product(*(SPECIAL[float_type(field)] for field in fields)):
        wanted = tuple(SPECIAL[float_type(f)][name] for f, name in zip(fields, names, strict=True))
        if wanted not in seen:
            pairs = zip(fields, names, strict=True)
            yield "no block has " + ", ".join(f"{field.name} = {name}" for field, name in pairs)


def _values(unit: Unit, blocks: Blocks) -> Iterable[str]:
    for field in value_fields(unit):
        seen = set(read_scale(blocks, field).tolist())
        for name, pattern in SPECIAL["f32" if field.type == "f32" else "f16"].items():
            if pattern not in seen:
                yield f"no block has {field.name} = {name}"
