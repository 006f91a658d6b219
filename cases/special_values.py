"""Bit patterns at which decoders go wrong, by the type of a field."""

from __future__ import annotations

from typing import Final

_F16: Final = {
    "zero": 0x0000,
    "negative zero": 0x8000,
    "smallest subnormal": 0x0001,
    "negative smallest subnormal": 0x8001,
    "largest subnormal": 0x03FF,
    "smallest normal": 0x0400,
    "negative smallest normal": 0x8400,
    "one": 0x3C00,
    "negative one": 0xBC00,
    "one third": 0x3555,
    "largest": 0x7BFF,
    "negative largest": 0xFBFF,
    "infinity": 0x7C00,
    "negative infinity": 0xFC00,
    "quiet NaN": 0x7E00,
    "signalling NaN": 0x7D00,
    "negative NaN": 0xFFFF,
}

_F32: Final = {
    "zero": 0x00000000,
    "negative zero": 0x80000000,
    "smallest subnormal": 0x00000001,
    "negative smallest subnormal": 0x80000001,
    "largest subnormal": 0x007FFFFF,
    "smallest normal": 0x00800000,
    "one": 0x3F800000,
    "negative one": 0xBF800000,
    "one third": 0x3EAAAAAB,
    "largest": 0x7F7FFFFF,
    "negative largest": 0xFF7FFFFF,
    "infinity": 0x7F800000,
    "negative infinity": 0xFF800000,
    "quiet NaN": 0x7FC00000,
    "signalling NaN": 0x7FA00000,
    "negative NaN": 0xFFFFFFFF,
}

_EVERY_BYTE: Final = {f"0x{byte:02X}": byte for byte in range(256)}

SPECIAL: Final = {"f16": _F16, "f32": _F32, "e8m0": _EVERY_BYTE, "ue4m3": _EVERY_BYTE}
"""Type of a scale field -> name -> bit pattern. Scales of one byte are few enough for all of them."""
