# mypy: ignore-errors
"""IQ2_XXS: y = (d * (0.5 + s) / 4) * grid * sign. A group is two grid rows of eight, half of the weights of one word."""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, f16, signed, table_word, u8, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    row = 2 * (group % 2) + position // 8
    start = at + 2 + 8 * (group // 2)
    word = u32(blocks, start + 4, align)
    value = signed(byte(table_word(table, 2 * u8(blocks, start + row) + position // 4 % 2), position % 4))
    negative = u8(signs, (word >> (7 * row).to(tl.uint32)) & 127) & (1 << position % 8)
    scale = (f16(blocks, at, align) * ((word >> 28).to(tl.float32) + 0.5)) * 0.25
    return 16 * group + position, scale * tl.where(negative != 0, -value, value)
