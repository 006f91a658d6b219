# mypy: ignore-errors
"""Q3_K: y = (d * (sc - 32)) * (q - 4). A group is four bytes: one weight for each byte in each of four runs of 32."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, u8, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    run: tl.constexpr = position // 4
    i: tl.constexpr = position % 4
    half = group // 8
    column = 4 * (group % 8)
    low = (u32(blocks, at + 32 + 4 * group, align) >> (8 * i + 2 * run)) & 3
    third = (u32(blocks, at + column, align) >> (4 * half + run + 8 * i).to(tl.uint32)) & 1
    q = low | (third << 2)
    # Sub-block 8 * half + at_16: its low nibble is one of eight bytes, its upper two bits a pair in one of four.
    at_16 = 2 * run + column // 16
    nibble = (u8(blocks, at + 96 + at_16) >> (4 * half).to(tl.uint32)) & 15
    pair = (u8(blocks, at + 104 + at_16 % 4) >> (4 * half + 2 * (run // 2)).to(tl.uint32)) & 3
    sc = (nibble | (pair << 4)).to(tl.float32) - 32.0
    return 128 * half + 32 * run + column + i, (f16(blocks, at + 108, align) * sc) * (q.to(tl.float32) - 4.0)
