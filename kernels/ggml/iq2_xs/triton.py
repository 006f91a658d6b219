# mypy: ignore-errors
"""IQ2_XS: y = (d * (0.5 + s) / 4) * grid * sign. A group is two grid rows of eight, which share a scale."""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, f16, signed, table_word, u8, u16

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    word = u16(blocks, at + 2 + 4 * group + 2 * (position // 8), align)
    value = signed(byte(table_word(table, 2 * (word & 511) + position // 4 % 2), position % 4))
    negative = u8(signs, word >> 9) & (1 << position % 8)
    s = (u8(blocks, at + 66 + group // 2) >> (4 * (group % 2)).to(tl.uint32)) & 15
    scale = (f16(blocks, at, align) * (s.to(tl.float32) + 0.5)) * 0.25
    return 16 * group + position, scale * tl.where(negative != 0, -value, value)
