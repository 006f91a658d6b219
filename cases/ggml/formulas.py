"""The decode formulas in float64, lane by lane: a judge that shares no code with our kernels or with an engine.

Every intermediate result is exact in float64 (half precision times small integers; single precision times a byte in
Q8_K), so that rounding once to float32 gives what the format defines, bit for bit. Written to be read beside the
`unit.yaml` of the encoding, not for speed. The lookup tables are the unit's own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernels.tables import tables_of
from kernels.units import Unit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Formula = Callable[..., Floats]

FORMULAS: dict[str, Formula] = {}
_I32, _I64, _I128, _I256 = (np.arange(n) for n in (32, 64, 128, 256))


def evaluate(unit: Unit, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Decode blocks [n, block_bytes] by the formula of the encoding, rounded once: float32 [n, block_elems]."""
    with np.errstate(all="ignore"):
        tables = {name: table.astype(np.int64) for name, table in tables_of(unit).items()}
        return FORMULAS[unit.encoding](blocks.astype(np.int64), **tables).astype(np.float32)


def _formula(encoding: str) -> Callable[[Formula], Formula]:
    def register(function: Formula) -> Formula:
        FORMULAS[encoding] = function
        return function

    return register


def _bits(b: Ints, byte: Ints, shift: Ints | int, width: int) -> Ints:
    """For every lane, `width` bits of one byte."""
    return (b[:, byte] >> shift) & ((1 << width) - 1)


def _word(b: Ints, byte: Ints | list[int], size: int) -> Ints:
    """For every lane, the little-endian integer of `size` bytes at `byte`."""
    parts = [b[:, np.asarray(byte) + k] << 8 * k for k in range(size)]
    return np.asarray(np.sum(parts, axis=0))


def _signed(code: Ints, width: int) -> Ints:
    return np.where(code >> (width - 1), code - (1 << width), code)


def _half(pattern: Ints) -> Floats:
    return pattern.astype(np.uint16).view(np.float16).astype(np.float64)


def _scale(b: Ints, byte: int) -> Floats:
    """The half-precision number at `byte`, [n, 1]."""
    return _half(_word(b, [byte], 2))


def _sign(b: Ints) -> Floats:
    return np.where(b, -1.0, 1.0)


@_formula("ggml.f32")
def _f32(b: Ints) -> Floats:
    return _word(b, [0], 4).astype(np.uint32).view(np.float32).astype(np.float64)


@_formula("ggml.f16")
def _f16(b: Ints) -> Floats:
    return _scale(b, 0)


@_formula("ggml.bf16")
def _bf16(b: Ints) -> Floats:
    return (_word(b, [0], 2) << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def _halves(b: Ints, start: int) -> Ints:
    """32 codes of 4 bits, those of the low nibbles first."""
    return _bits(b, start + _I32 % 16, _I32 // 16 * 4, 4)


@_formula("ggml.q4_0")
def _q4_0(b: Ints) -> Floats:
    return _scale(b, 0) * (_halves(b, 2) - 8)


@_formula("ggml.q4_1")
def _q4_1(b: Ints) -> Floats:
    return _scale(b, 0) * _halves(b, 4) + _scale(b, 2)


@_formula("ggml.q5_0")
def _q5_0(b: Ints) -> Floats:
    return _scale(b, 0) * (_halves(b, 6) + 16 * _bits(b, 2 + _I32 // 8, _I32 % 8, 1) - 16)


@_formula("ggml.q5_1")
def _q5_1(b: Ints) -> Floats:
    return _scale(b, 0) * (_halves(b, 8) + 16 * _bits(b, 4 + _I32 // 8, _I32 % 8, 1)) + _scale(b, 2)


@_formula("ggml.q8_0")
def _q8_0(b: Ints) -> Floats:
    return _scale(b, 0) * _signed(b[:, 2 + _I32], 8)


@_formula("ggml.q8_1")
def _q8_1(b: Ints) -> Floats:
    return _scale(b, 0) * _signed(b[:, 4 + _I32], 8)


@_formula("ggml.q8_k")
def _q8_k(b: Ints) -> Floats:
    return _f32(b) * _signed(b[:, 4 + _I256], 8)


@_formula("ggml.q1_0")
def _q1_0(b: Ints) -> Floats:
    return _scale(b, 0) * -_sign(_bits(b, 2 + _I128 // 8, _I128 % 8, 1))


@_formula("ggml.q2_0")
def _q2_0(b: Ints) -> Floats:
    return _scale(b, 0) * (_bits(b, 2 + _I64 // 4, _I64 % 4 * 2, 2) - 1)


# Super-blocks: lane i of 256 lies in half h, run s of 32 within the half, and at position l of the run.
_H, _S, _L = _I256 // 128, _I256 // 32 % 4, _I256 % 32


@_formula("ggml.q2_k")
def _q2_k(b: Ints) -> Floats:
    q = _bits(b, 16 + 32 * _H + _L, 2 * _S, 2)
    return _scale(b, 80) * _bits(b, _I256 // 16, 0, 4) * q - _scale(b, 82) * _bits(b, _I256 // 16, 4, 4)


@_formula("ggml.q3_k")
def _q3_k(b: Ints) -> Floats:
    q = _bits(b, 32 + 32 * _H + _L, 2 * _S, 2) + 4 * _bits(b, _L, 4 * _H + _S, 1)
    j = _I256 // 16
    sc = _bits(b, 96 + j % 8, j // 8 * 4, 4) + 16 * _bits(b, 104 + j % 4, j // 4 * 2, 2)
    return _scale(b, 108) * (sc - 32) * (q - 4)


def _six_bits(b: Ints, j: Ints) -> tuple[Ints, Ints]:
    """Scale and minimum j of the twelve bytes that Q4_K and Q5_K have at 4."""
    first, last = j < 4, 4 + j
    sc = np.where(first, b[:, last] & 63, b[:, last + 4] % 16 + (b[:, np.where(first, 4, j)] >> 6) * 16)
    mn = np.where(first, b[:, last + 4] & 63, (b[:, last + 4] >> 4) + (b[:, last] >> 6) * 16)
    return sc, mn


@_formula("ggml.q4_k")
def _q4_k(b: Ints) -> Floats:
    j = _I256 // 32
    sc, mn = _six_bits(b, j)
    q = _bits(b, 16 + j // 2 * 32 + _L, j % 2 * 4, 4)
    return _scale(b, 0) * sc * q - _scale(b, 2) * mn


@_formula("ggml.q5_k")
def _q5_k(b: Ints) -> Floats:
    j = _I256 // 32
    sc, mn = _six_bits(b, j)
    q = _bits(b, 48 + j // 2 * 32 + _L, j % 2 * 4, 4) + 16 * _bits(b, 16 + _L, j, 1)
    return _scale(b, 0) * sc * q - _scale(b, 2) * mn


@_formula("ggml.q6_k")
def _q6_k(b: Ints) -> Floats:
    low = _bits(b, 64 * _H + 32 * (_S % 2) + _L, _S // 2 * 4, 4)
    high = _bits(b, 128 + 32 * _H + _L, 2 * _S, 2)
    return _scale(b, 208) * _signed(b[:, 192 + _I256 // 16], 8) * (low + 16 * high - 32)


@_formula("ggml.iq4_nl")
def _iq4_nl(b: Ints, kvalues: Ints) -> Floats:
    return _scale(b, 0) * kvalues[_halves(b, 2)]


@_formula("ggml.iq4_xs")
def _iq4_xs(b: Ints, kvalues: Ints) -> Floats:
    j = _I256 // 32
    sc = _bits(b, 4 + j // 2, j % 2 * 4, 4) + 16 * _bits(b, 2 + j // 4, j % 4 * 2, 2)
    return _scale(b, 0) * (sc - 32) * kvalues[_bits(b, 8 + 16 * j + _L % 16, _L // 16 * 4, 4)]


@_formula("ggml.mxfp4")
def _mxfp4(b: Ints, kvalues: Ints) -> Floats:
    return np.ldexp(1.0, b[:, :1] - 128) * kvalues[_halves(b, 1)]


@_formula("ggml.nvfp4")
def _nvfp4(b: Ints, kvalues: Ints) -> Floats:
    byte = b[:, _I64 // 16]
    exponent, fraction = byte >> 3 & 15, byte & 7
    value = np.where(exponent > 0, np.ldexp(8.0 + fraction, exponent - 10), np.ldexp(1.0 * fraction, -9))
    value[byte == 127] = 0
    q = _bits(b, 4 + _I64 // 16 * 8 + _I64 % 8, _I64 // 8 % 2 * 4, 4)
    return value / 2 * kvalues[q]


@_formula("ggml.tq1_0")
def _tq1_0(b: Ints) -> Floats:
    tail = np.where(_I256 < 240, 32 + (_I256 - 160) % 16, 48 + _I256 % 4)
    digit = np.where(_I256 < 240, (_I256 - 160) // 16, (_I256 - 240) // 4)
    byte, digit = np.where(_I256 < 160, _L, tail), np.where(_I256 < 160, _I256 // 32, digit)
    return _scale(b, 52) * ((b[:, byte] * 3**digit % 256 * 3 >> 8) - 1)


@_formula("ggml.tq2_0")
def _tq2_0(b: Ints) -> Floats:
    return _scale(b, 64) * (_bits(b, 32 * _H + _L, 2 * _S, 2) - 1)


# Grid encodings: rows of eight (or four) weights; lane i is weight k of row r.
_R8, _K8, _R4, _K4 = _I256 // 8, _I256 % 8, _I256 // 4, _I256 % 4


@_formula("ggml.iq2_xxs")
def _iq2_xxs(b: Ints, grid: Ints, ksigns: Ints) -> Floats:
    word = _word(b, 6 + _I256 // 32 * 8, 4)
    sign = _sign(ksigns[word >> 7 * (_R8 % 4) & 127] >> _K8 & 1)
    magnitude = grid[b[:, 2 + _I256 // 32 * 8 + _R8 % 4], _K8]
    return _scale(b, 0) * (0.5 + (word >> 28)) * 0.25 * magnitude * sign


@_formula("ggml.iq2_xs")
def _iq2_xs(b: Ints, grid: Ints, ksigns: Ints) -> Floats:
    word = _word(b, 2 + 2 * _R8, 2)
    sc = _bits(b, 66 + _I256 // 32, _I256 // 16 % 2 * 4, 4)
    sign = _sign(ksigns[word >> 9] >> _K8 & 1)
    return _scale(b, 0) * (0.5 + sc) * 0.25 * grid[word & 511, _K8] * sign


@_formula("ggml.iq2_s")
def _iq2_s(b: Ints, grid: Ints) -> Floats:
    row = b[:, 2 + _R8] + 256 * _bits(b, 66 + _R8 // 4, _R8 % 4 * 2, 2)
    sc = _bits(b, 74 + _I256 // 32, _I256 // 16 % 2 * 4, 4)
    sign = _sign(_bits(b, 34 + _R8, _K8, 1))
    return _scale(b, 0) * (0.5 + sc) * 0.25 * grid[row, _K8] * sign


@_formula("ggml.iq3_xxs")
def _iq3_xxs(b: Ints, grid: Ints, ksigns: Ints) -> Floats:
    word = _word(b, 66 + _I256 // 32 * 4, 4)
    sign = _sign(ksigns[word >> 7 * (_R8 % 4) & 127] >> _K8 & 1)
    return _scale(b, 0) * (0.5 + (word >> 28)) * 0.5 * grid[b[:, 2 + _R4], _K4] * sign


@_formula("ggml.iq3_s")
def _iq3_s(b: Ints, grid: Ints) -> Floats:
    row = b[:, 2 + _R4] + 256 * _bits(b, 66 + _R4 // 8, _R4 % 8, 1)
    sc = _bits(b, 106 + _I256 // 64, _I256 // 32 % 2 * 4, 4)
    return _scale(b, 0) * (1 + 2 * sc) * grid[row, _K4] * _sign(_bits(b, 74 + _R8, _K8, 1))


@_formula("ggml.iq1_s")
def _iq1_s(b: Ints, grid: Ints) -> Floats:
    word = _word(b, 34 + _I256 // 32 * 2, 2)
    row = b[:, 2 + _R8] + 256 * (word >> 3 * (_R8 % 4) & 7)
    shift = 0.125 * _sign(word >> 15)
    return _scale(b, 0) * (2 * (word >> 12 & 7) + 1) * (grid[row, _K8] + shift)


@_formula("ggml.iq1_m")
def _iq1_m(b: Ints, grid: Ints) -> Floats:
    d = _half((b[:, 49:56:2] >> 4 << np.arange(0, 16, 4)).sum(axis=1, keepdims=True))
    sc = _word(b, 48 + _I256 // 64 * 2, 2) >> _I256 // 16 % 4 * 3 & 7
    nibble = _bits(b, 32 + _R8 // 2, _R8 % 2 * 4, 4)
    return d * (2 * sc + 1) * (grid[b[:, _R8] + 256 * (nibble & 7), _K8] + 0.125 * _sign(nibble >> 3))
