# mypy: ignore-errors
"""IQ4_NL: y = d * kvalues[q]. A group is four bytes: their low nibbles, then their high ones, 16 weights further on."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, u32

GROUPS, POSITIONS = 4, 8


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    high: tl.constexpr = position // 4
    i: tl.constexpr = position % 4
    q = (u32(blocks, at + 2 + 4 * group, align) >> (8 * i + 4 * high)) & 15
    return 16 * high + 4 * group + i, f16(blocks, at, align) * tl.load(table + q).to(tl.float32)
