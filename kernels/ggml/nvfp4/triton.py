# mypy: ignore-errors
"""NVFP4 as ggml stores it: y = ue4m3(d) / 2 * kvalues[q]. A group is four of the eight bytes of a sub-block of 16."""

import triton
import triton.language as tl

from kernels.common.triton.loads import u8, u32

GROUPS, POSITIONS = 8, 8


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    high: tl.constexpr = position // 4
    i: tl.constexpr = position % 4
    q = (u32(blocks, at + 4 + 4 * group, align) >> (8 * i + 4 * high)) & 15
    d = u8(blocks, at + group // 2)
    # Half of (1 + f / 8) * 2^(e - 7) has the exponent e + 119 of binary32; with e = 0 it is f * 2^-10. 0x7F counts as zero.
    fraction = d & 7
    normal = ((d & 0x7F) * 0x100000 + (119 << 23)).to(tl.float32, bitcast=True)
    scale = tl.where((d & 0x78) == 0, fraction.to(tl.float32) * 0.0009765625, normal)
    scale = tl.where(d == 0x7F, 0.0, scale)
    lane = 16 * (group // 2) + 8 * high + 4 * (group % 2) + i
    return lane, scale * tl.load(table + q).to(tl.float32)
