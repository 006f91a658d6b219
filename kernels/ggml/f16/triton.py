# mypy: ignore-errors
"""F16: y is the half-precision number, widened; a group is one weight."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16

GROUPS, POSITIONS = 1, 1


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    return group, f16(blocks, at, align)
