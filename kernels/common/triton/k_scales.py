# mypy: ignore-errors
"""The packed scales that Q4_K and Q5_K share; device code."""

import triton
import triton.language as tl

from kernels.common.triton.loads import half_bits, u32


@triton.jit
def scale_and_min(blocks, at, pair, odd: tl.constexpr, align: tl.constexpr):
    """d * sc and dmin * mn of sub-block 2 * pair + odd, float32.

    The twelve bytes are three words. Byte i of the first and of the second holds a 6-bit number of sub-block i below two
    upper bits of one of sub-block i + 4, whose lower nibbles share byte i of the third.
    """
    both = u32(blocks, at, align)
    shift = (16 * (pair % 2) + 8 * odd).to(tl.uint32)
    first = u32(blocks, at + 4, align) >> shift
    second = u32(blocks, at + 8, align) >> shift
    third = u32(blocks, at + 12, align) >> shift
    lower = pair < 2
    sc = tl.where(lower, first & 63, (third & 15) | ((first >> 2) & 48))
    mn = tl.where(lower, second & 63, ((third >> 4) & 15) | ((second >> 2) & 48))
    return half_bits(both & 0xFFFF) * sc.to(tl.float32), half_bits(both >> 16) * mn.to(tl.float32)
