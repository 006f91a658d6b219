"""Random encoded weights made on a GPU: uniform codes under ordinary finite scales, any number of them in no time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from kernels.units import Field, Unit

SCALE = 0.01
_FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
_BYTES = {"e8m0": (107, 135), "ue4m3": (1, 0x7F)}
"""Bytes of finite scales that are neither tiny nor huge: from, and up to but not."""


def random_weights(found: Unit, shape: Sequence[int], device: Any, seed: int) -> Any:
    """uint8 [n_bytes] on `device`: weights [shape] of either sign and of ordinary size, no two blocks alike."""
    generator = torch.Generator(device).manual_seed(seed)
    blocks = math.prod(shape) // found.block_elems
    data = torch.randint(
        0, 256, (blocks, found.block_bytes), dtype=torch.uint8, device=device, generator=generator
    )
    for field in found.fields:
        if field.role in ("scale", "min", "value"):
            data[:, field.offset : field.offset + field.bytes] = _scales(field, blocks, device, generator)
        elif field.role == "sub_scale_and_scale":
            _put_in_upper_nibbles(data, field, generator)
    return data.view(-1)


def _scales(field: Field, blocks: int, device: Any, generator: Any) -> Any:
    if field.type in _BYTES:
        low, high = _BYTES[field.type]
        return torch.randint(
            low, high, (blocks, field.bytes), dtype=torch.uint8, device=device, generator=generator
        )
    size = 1.0 if field.role == "value" else SCALE
    values = size * torch.randn((blocks, field.count), device=device, generator=generator)
    return values.to(_FLOATS[field.type]).view(torch.uint8)


def _put_in_upper_nibbles(data: Any, field: Field, generator: Any) -> None:
    """A half-precision scale whose nibbles, lowest first, are the upper nibbles of the field's four words."""
    values = SCALE * torch.randn(len(data), device=data.device, generator=generator)
    bits = values.to(torch.float16).view(torch.int16).to(torch.int32)
    for word in range(4):
        upper = data[:, field.offset + 2 * word + 1]
        upper &= 15
        upper |= ((bits >> 4 * word & 15) << 4).to(torch.uint8)
