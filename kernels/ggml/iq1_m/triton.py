# mypy: ignore-errors
"""IQ1_M: y = (d * (2 s + 1)) * (grid + shift). A group is two grid rows of eight, which share a scale and a byte of qh."""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, half_bits, signed, table_word, u8, u16, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    nibble = (u8(blocks, at + 32 + group) >> (4 * (position // 8))) & 15
    index = u8(blocks, at + 2 * group + position // 8) | ((nibble & 7) << 8)
    value = signed(byte(table_word(table, 2 * index + position // 4 % 2), position % 4))
    shift = tl.where(nibble >= 8, -0.125, 0.125)
    # The scale d itself: the upper nibbles of four words, the lowest first.
    front = u32(blocks, at + 48, align)
    back = u32(blocks, at + 52, align)
    d = ((front >> 12) & 0xF) | ((front >> 24) & 0xF0) | ((back >> 4) & 0xF00) | ((back >> 16) & 0xF000)
    s = (u16(blocks, at + 48 + 2 * (group // 4), align) >> (3 * (group % 4)).to(tl.uint32)) & 7
    scale = half_bits(d) * (2 * s + 1).to(tl.float32)
    return 16 * group + position, scale * (value + shift)
