# mypy: ignore-errors
"""Q5_0: y = d * (q - 16). A group is four bytes of nibbles; the fifth bit of a weight is the bit of its own number in qh."""

import triton
import triton.language as tl

from kernels.common.triton.loads import f16, u32

GROUPS, POSITIONS = 4, 8


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    high: tl.constexpr = position // 4
    i: tl.constexpr = position % 4
    lane = 16 * high + 4 * group + i
    nibble = (u32(blocks, at + 6 + 4 * group, align) >> (8 * i + 4 * high)) & 15
    fifth = (u32(blocks, at + 2, align) >> lane.to(tl.uint32)) & 1
    q = nibble | (fifth << 4)
    return lane, f16(blocks, at, align) * (q.to(tl.float32) - 16.0)
