# mypy: ignore-errors
"""Q6_K: y = (d * sc) * (q - 32). A group is four columns of one half of 128 weights: in each of its four runs of 32, four
weights."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, signed, u8, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    run: tl.constexpr = position // 4
    i: tl.constexpr = position % 4
    half = group // 8
    column = 4 * (group % 8)
    low = (u32(blocks, at + 64 * half + 32 * (run % 2) + column, align) >> (8 * i + 4 * (run // 2))) & 15
    high = (u32(blocks, at + 128 + 32 * half + column, align) >> (8 * i + 2 * run)) & 3
    q = (low | (high << 4)).to(tl.float32) - 32.0
    lane = 128 * half + 32 * run + column + i
    scale = f16(blocks, at + 208, align) * signed(u8(blocks, at + 192 + lane // 16))
    return lane, scale * q
