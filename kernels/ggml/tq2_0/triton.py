# mypy: ignore-errors
"""TQ2_0: y = d * (q - 1). A group is four bytes: one weight for each byte in each of four runs of 32."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    run: tl.constexpr = position // 4
    i: tl.constexpr = position % 4
    q = (u32(blocks, at + 4 * group, align) >> (8 * i + 2 * run)) & 3
    lane = 128 * (group // 8) + 32 * run + 4 * (group % 8) + i
    return lane, f16(blocks, at + 64, align) * (q.to(tl.float32) - 1.0)
