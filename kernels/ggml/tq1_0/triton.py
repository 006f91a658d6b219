# mypy: ignore-errors
"""TQ1_0: y = d * (t - 1). A group has one run of four neighbouring weights in each quarter of the block.

Run r, weights 4 r to 4 r + 3, is one digit of four neighbouring bytes. Runs 0 to 39 are the five digits of bytes 0 to 31,
runs 40 to 59 those of bytes 32 to 47, runs 60 to 63 the four digits of bytes 48 to 51.
"""

import triton
import triton.language as tl

from kernels.common.triton.loads import byte, f16, u32

GROUPS, POSITIONS = 16, 16


@triton.jit
def decode(blocks, at, group, table, signs, align: tl.constexpr, position: tl.constexpr):
    run = 16 * (position // 4) + group
    digit = tl.where(run < 40, run // 8, tl.where(run < 60, (run - 40) // 4, run - 60))
    word = tl.where(run < 40, run % 8, tl.where(run < 60, 8 + run % 4, 12))
    power = tl.where(
        digit == 0, 1, tl.where(digit == 1, 3, tl.where(digit == 2, 9, tl.where(digit == 3, 27, 81)))
    )
    b = byte(u32(blocks, at + 4 * word, align), position % 4)
    t = (((b * power.to(tl.uint32)) & 255) * 3) >> 8
    return 4 * run + position % 4, f16(blocks, at + 52, align) * (t.to(tl.float32) - 1.0)
