# mypy: ignore-errors
"""IQ3_S: y = (d * (1 + 2 s)) * grid * sign. A group is four grid rows of four, half of the weights of a scale."""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, f16, signed, table_word, u8, u16, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    sub = group // 2
    ninth = (u8(blocks, at + 66 + sub) >> (4 * (group % 2) + position // 4).to(tl.uint32)) & 1
    index = byte(u32(blocks, at + 2 + 4 * group, align), position // 4) | (ninth << 8)
    value = signed(byte(table_word(table, index), position % 4))
    negative = u16(blocks, at + 74 + 2 * group, align) & (1 << position)
    s = (u8(blocks, at + 106 + sub // 2) >> (4 * (sub % 2)).to(tl.uint32)) & 15
    scale = f16(blocks, at, align) * (2 * s + 1).to(tl.float32)
    return 16 * group + position, scale * tl.where(negative != 0, -value, value)
