# mypy: ignore-errors
"""MXFP4 as ggml stores it: y = 2^(e - 128) * kvalues[q]. A group is four bytes: low nibbles, then high ones."""

import triton
import triton.language as tl

from kernels.common.triton.loads import u8, u32

GROUPS, POSITIONS = 4, 8


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    high: tl.constexpr = position // 4
    i: tl.constexpr = position % 4
    q = (u32(blocks, at + 1 + 4 * group, 1) >> (8 * i + 4 * high)) & 15
    e = u8(blocks, at)
    # Bytes 0 and 1 are the subnormal powers 2^-128 and 2^-127: one bit of the fraction; above, an exponent alone.
    power = tl.where(e < 2, e * 0x200000 + 0x200000, (e - 1) << 23).to(tl.float32, bitcast=True)
    return 16 * high + 4 * group + i, power * tl.load(table + q).to(tl.float32)
