# mypy: ignore-errors
"""Q1_0: y is d where the weight's bit is set, else -d. A group is a word of 32 bits."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, u32

GROUPS, POSITIONS = 4, 32


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    bit = (u32(blocks, at + 2 + 4 * group, align) >> position) & 1
    # Not -d, which is 0 - d here and would lose the sign of a zero.
    return 32 * group + position, f16(blocks, at, align) * tl.where(bit != 0, 1.0, -1.0)
