# mypy: ignore-errors
"""Rounding a float32 tile to a narrower type; device code."""

import triton
import triton.language as tl


@triton.jit
def bf16_bits(value):
    """The bits of `value`, float32, rounded to bfloat16 to nearest even, in the upper half of a word."""
    bits = value.to(tl.uint32, bitcast=True)
    kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return tl.where(value == value, kept, 0x7FC00000)


@triton.jit
def rounded_to_bf16(value):
    """`value` rounded to bfloat16 and kept as float32."""
    return bf16_bits(value).to(tl.float32, bitcast=True)


@triton.jit
def narrowed(value, dtype: tl.constexpr, emulated: tl.constexpr):
    """`value` as `dtype`, rounded to nearest even.

    The interpreter (`emulated`) casts to bfloat16 by cutting bits off and damages subnormals: there it is done on bits.
    """
    if emulated and dtype == tl.bfloat16:
        narrow = (bf16_bits(value) >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        narrow = value.to(dtype)
    return narrow
