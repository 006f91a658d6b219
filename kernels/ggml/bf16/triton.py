# mypy: ignore-errors
"""BF16: the sixteen bits are the upper half of y; a group is one weight."""

import triton
import triton.language as tl

from kernels.common.triton.loads import u16

GROUPS, POSITIONS = 1, 1


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    return group, (u16(blocks, at, align) << 16).to(tl.float32, bitcast=True)
