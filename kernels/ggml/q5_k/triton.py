# mypy: ignore-errors
"""Q5_K: y = (d * sc) * q - dmin * mn. A group is two words of nibbles of one pair of sub-blocks, 16 weights apart, and
the words of fifth bits above them."""

import triton
import triton.language as tl

from kernels.common.triton.k_scales import scale_and_min
from kernels.common.triton.loads import u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    odd: tl.constexpr = position // 8
    pair = group // 4
    column = 16 * (position // 4 % 2) + 4 * (group % 4)
    nibble = (u32(blocks, at + 48 + 32 * pair + column, align) >> (8 * (position % 4) + 4 * odd)) & 15
    fifth = (u32(blocks, at + 16 + column, align) >> (2 * pair + odd + 8 * (position % 4)).to(tl.uint32)) & 1
    q = nibble | (fifth << 4)
    scale, minimum = scale_and_min(blocks, at, pair, odd, align)
    return 64 * pair + 32 * odd + column + position % 4, scale * q.to(tl.float32) - minimum
