# mypy: ignore-errors
"""Q8_1: y = d * q; the stored sum is for dot products. A group is two words of four signed bytes, sixteen weights apart."""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, f16, signed, u32

GROUPS, POSITIONS = 4, 8


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    first = 16 * (position // 4) + 4 * group
    q = signed(byte(u32(blocks, at + 4 + first, align), position % 4))
    return first + position % 4, f16(blocks, at, align) * q
