"""Encoded rows taken apart into integer codes and scales, with nothing but the decode of their encoding.

A decode is scale times integer. Of blocks whose scale has been replaced by one it gives the integers, sub-block scales
multiplied in; with the scale zero and the minimum one it gives the integer minima. No encoding needs a second unpacking
to keep in step with its first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.common.numpy.matmul import Floats, Offsets, Operand
from kernels.units import Field, Unit

Blocks = NDArray[np.uint8]
Unscale = Callable[[Blocks], tuple[Floats, Blocks]]

_FLOAT_TYPES = {"f16": "<f2", "f32": "<f4"}


@dataclass(frozen=True)
class Codec:
    """An encoding with its decode [n, block_bytes] uint8 -> [n, block_elems] float32, tables bound.

    `unscale` takes the scales out where they are not plain numbers of the block: it gives them, float32 [n, groups],
    and the blocks with the scale one.
    """

    unit: Unit
    decode: Callable[[Blocks], Floats]
    unscale: Unscale | None = None


def weights(codec: Codec, blocks: Blocks, rows: int, parts: int) -> Operand:
    """`rows` rows of weights, from blocks uint8 [n, block_bytes].

    Their integer minima, where the encoding has some, are repeated for each of the `parts` runs of a block of which the
    activations keep the sum.
    """
    scales, at_one = (codec.unscale or _plain_unscale(codec.unit))(blocks)
    minimum = _field(codec.unit, "min")
    offsets = None
    if minimum is not None:
        only_minima = blocks.copy()
        for field in codec.unit.fields:
            if field.role == "scale":
                _put(field, only_minima, 0)
        _put(minimum, only_minima, 1)
        integers = codec.decode(only_minima)[:, :: codec.unit.block_elems // parts]
        offsets = Offsets(integers.reshape(rows, -1, parts), _take(minimum, blocks).reshape(rows, -1))
        _put(minimum, at_one, 0)
    return Operand(codec.decode(at_one).reshape(rows, -1), scales.reshape(rows, -1), offsets)


def activations(codec: Codec, blocks: Blocks, rows: int) -> Operand:
    """`rows` rows of activations, from blocks uint8 [n, block_bytes]. The sums are those that the blocks carry.

    Sums of codes share the scale of the codes (Q8_K); a sum that is scaled already is its own scale (Q8_1: once
    rounded to half precision, it is not d times a sum of codes any more, and overflows where that is above 65504).
    """
    scales, at_one = _plain_unscale(codec.unit)(blocks)
    sums = _field(codec.unit, "sum")
    offsets = None
    if sums is not None:
        stored = _take(sums, blocks).reshape(rows, -1, sums.count)
        if sums.type in _FLOAT_TYPES:
            offsets = Offsets(np.ones_like(stored), stored[:, :, 0])
        else:
            offsets = Offsets(stored, scales.reshape(rows, -1))
    return Operand(codec.decode(at_one).reshape(rows, -1), scales.reshape(rows, -1), offsets)


def summed_parts(activation: Unit) -> int:
    """Of how many runs of a block of activations the sum is kept; 1 where none is."""
    sums = _field(activation, "sum")
    return 1 if sums is None else sums.count


def _plain_unscale(unit: Unit) -> Unscale:
    """For the encodings whose scale is a field of half or single precision."""
    scale = _field(unit, "scale")
    if scale is None or scale.type not in _FLOAT_TYPES:
        raise TypeError(
            f"{unit.encoding}: its scale is no plain number, its reference.py has to offer `unscale`"
        )

    def unscale(blocks: Blocks) -> tuple[Floats, Blocks]:
        at_one = blocks.copy()
        _put(scale, at_one, 1)
        return _take(scale, blocks), at_one

    return unscale


def _field(unit: Unit, role: str) -> Field | None:
    return next((field for field in unit.fields if field.role == role), None)


def _take(field: Field, blocks: Blocks) -> Floats:
    """The numbers of a field, float32 [n, count]."""
    dtype = _FLOAT_TYPES.get(field.type, "<i2")
    stored = np.ascontiguousarray(blocks[:, field.offset : field.offset + field.bytes])
    return stored.view(dtype).astype(np.float32)


def _put(field: Field, blocks: Blocks, value: float) -> None:
    """Write `value` to every item of a field, in place."""
    items = np.full(field.count, value, _FLOAT_TYPES[field.type])
    blocks[:, field.offset : field.offset + field.bytes] = items.view(np.uint8)
