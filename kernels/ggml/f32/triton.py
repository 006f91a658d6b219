# mypy: ignore-errors
"""F32: y is the word as it is stored; a group is one weight."""

import triton
import triton.language as tl

from kernels.common.triton.loads import u32

GROUPS, POSITIONS = 1, 1


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    return group, u32(blocks, at, align).to(tl.float32, bitcast=True)
