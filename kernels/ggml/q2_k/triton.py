# mypy: ignore-errors
"""Q2_K: y = (d * sc) * q - dmin * mn. A group is four bytes: one weight for each byte in each of four runs of 32."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, u8, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    run: tl.constexpr = position // 4
    i: tl.constexpr = position % 4
    half = group // 8
    lane = 128 * half + 32 * run + 4 * (group % 8) + i
    q = (u32(blocks, at + 16 + 4 * group, align) >> (8 * i + 2 * run)) & 3
    packed = u8(blocks, at + lane // 16)
    scale = f16(blocks, at + 80, align) * (packed & 15).to(tl.float32)
    minimum = f16(blocks, at + 82, align) * (packed >> 4).to(tl.float32)
    return lane, scale * q.to(tl.float32) - minimum
