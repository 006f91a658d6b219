# mypy: ignore-errors
"""IQ3_XXS: y = (d * (0.5 + s) / 2) * grid * sign. A group is four grid rows of four, half of the weights of one word."""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, f16, signed, table_word, u8, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    word = u32(blocks, at + 66 + 4 * (group // 2), align)
    index = byte(u32(blocks, at + 2 + 4 * group, align), position // 4)
    value = signed(byte(table_word(table, index), position % 4))
    sign = (word >> (14 * (group % 2) + 7 * (position // 8)).to(tl.uint32)) & 127
    negative = u8(signs, sign) & (1 << position % 8)
    scale = (f16(blocks, at, align) * ((word >> 28).to(tl.float32) + 0.5)) * 0.5
    return 16 * group + position, scale * tl.where(negative != 0, -value, value)
