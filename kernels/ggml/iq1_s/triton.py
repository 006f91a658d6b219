# mypy: ignore-errors
"""IQ1_S: y = (d * (2 s + 1)) * (grid + shift). A group is two grid rows of eight, half of the weights of one word of qh."""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, f16, signed, table_word, u8, u16

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    word = u16(blocks, at + 34 + 2 * (group // 2), align)
    upper = (word >> (6 * (group % 2) + 3 * (position // 8)).to(tl.uint32)) & 7
    index = u8(blocks, at + 2 + 2 * group + position // 8) | (upper << 8)
    value = signed(byte(table_word(table, 2 * index + position // 4 % 2), position % 4))
    shift = tl.where(word >= 0x8000, -0.125, 0.125)
    scale = f16(blocks, at, align) * (2 * ((word >> 12) & 7) + 1).to(tl.float32)
    return 16 * group + position, scale * (value + shift)
