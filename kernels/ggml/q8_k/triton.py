# mypy: ignore-errors
"""Q8_K: y = d * q with a single-precision d. A group is two words of four signed bytes, 128 weights apart."""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, signed, u32

GROUPS, POSITIONS = 32, 8


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    first = 128 * (position // 4) + 4 * group
    q = signed(byte(u32(blocks, at + 4 + first, align), position % 4))
    return first + position % 4, u32(blocks, at, align).to(tl.float32, bitcast=True) * q
