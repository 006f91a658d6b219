# mypy: ignore-errors
"""Q2_0: y = d * (q - 1). A group is a word of sixteen 2-bit codes, the first one lowest."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, u32

GROUPS, POSITIONS = 4, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    q = (u32(blocks, at + 2 + 4 * group, align) >> (2 * position)) & 3
    return 16 * group + position, f16(blocks, at, align) * (q.to(tl.float32) - 1.0)
