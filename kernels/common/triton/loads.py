# mypy: ignore-errors
"""Reads of little-endian fields from encoded blocks at any alignment; device code.

`align` is what every block of the launch is aligned to, in bytes: the greatest common divisor of the block size, the
row size and the address of the data. A field lies at a multiple of its size within the block wherever align allows a
wide read, so that one test decides. Blocks of 18, 34 or 210 bytes are only 2-aligned and one of 17 not at all: there a
word is put together from halves or bytes.
"""

import triton
import triton.language as tl


@triton.jit
def u8(blocks, at):
    """The byte at offset `at`, uint32."""
    return tl.load(blocks + at).to(tl.uint32)


@triton.jit
def u16(blocks, at, align: tl.constexpr):
    """The 16-bit word at offset `at`, uint32."""
    if align % 2 == 0:
        word = tl.load((blocks + at).to(tl.pointer_type(tl.uint16))).to(tl.uint32)
    else:
        word = u8(blocks, at) | (u8(blocks, at + 1) << 8)
    return word


@triton.jit
def u32(blocks, at, align: tl.constexpr):
    """The 32-bit word at offset `at`, uint32."""
    if align % 4 == 0:
        word = tl.load((blocks + at).to(tl.pointer_type(tl.uint32)))
    else:
        word = u16(blocks, at, align) | (u16(blocks, at + 2, align) << 16)
    return word


@triton.jit
def half_bits(bits):
    """The half-precision number with these bits, as float32: exact, subnormals included."""
    return bits.to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def f16(blocks, at, align: tl.constexpr):
    """The half-precision number at offset `at`, float32."""
    return half_bits(u16(blocks, at, align))


@triton.jit
def byte(word, i: tl.constexpr):
    """Byte `i` of words, uint32."""
    return (word >> (8 * i)) & 255


@triton.jit
def signed(bits):
    """The lowest eight bits of words as a two's complement number, float32."""
    return bits.to(tl.int8).to(tl.float32)


@triton.jit
def table_word(table, index):
    """The word `index` of a table of bytes, uint32: four neighbouring entries in one read."""
    return tl.load(table.to(tl.pointer_type(tl.uint32)) + index)
