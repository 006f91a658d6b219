# mypy: ignore-errors
"""IQ4_XS: y = (d * (sc - 32)) * kvalues[q]. A group is two words of nibbles of one sub-block of 32, eight bytes apart."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, u8, u16, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    high: tl.constexpr = position // 8
    sub = group // 2
    column = 8 * (position // 4 % 2) + 4 * (group % 2)
    q = (u32(blocks, at + 8 + 16 * sub + column, align) >> (8 * (position % 4) + 4 * high)) & 15
    nibble = (u8(blocks, at + 4 + sub // 2) >> (4 * (sub % 2)).to(tl.uint32)) & 15
    pair = (u16(blocks, at + 2, align) >> (2 * sub).to(tl.uint32)) & 3
    scale = f16(blocks, at, align) * ((nibble | (pair << 4)).to(tl.float32) - 32.0)
    return 32 * sub + 16 * high + column + position % 4, scale * tl.load(table + q).to(tl.float32)
