"""Plain decoders of the encodings with known answers, each with the faults that people really make.

`decode(encoding, data, fault)` walks element by element; `FAULTS[encoding]` lists what can go wrong.
"""

import math
import struct

import numpy as np

NIBBLES = ("halves swapped", "interleaved", "bytes reversed")
BLOCK = ("scale of the block before",)
HIGH_BITS = ("high bits dropped", "high bits reversed", "high bits big-endian", "high bits of the other half")
K_SCALES = (
    "scales and minima exchanged",
    "high parts dropped",
    "high parts crossed",
    "scales shifted by one",
)
FAULTS = {
    "ggml.f32": ("big-endian", "subnormals flushed", "sign of zero lost"),
    "ggml.f16": ("big-endian", "subnormals flushed", "sign of zero lost"),
    "ggml.bf16": ("big-endian", "subnormals flushed", "sign of zero lost"),
    "ggml.q4_0": (*NIBBLES, *BLOCK, "no offset", "sign of zero lost", "subnormal scale flushed"),
    "ggml.q4_1": (*NIBBLES, *BLOCK, "scale and minimum exchanged", "minimum subtracted", "header of 2 bytes"),
    "ggml.q5_0": (*NIBBLES, *BLOCK, *HIGH_BITS, "no offset"),
    "ggml.q5_1": (*NIBBLES, *BLOCK, *HIGH_BITS, "scale and minimum exchanged"),
    "ggml.q8_0": (*BLOCK, "unsigned", "bytes reversed", "subnormal scale flushed"),
    "ggml.q4_k": (
        "halves swapped",
        "all low nibbles first",
        *K_SCALES,
        *BLOCK,
        "minimum added",
        "d and dmin exchanged",
    ),
    "ggml.q6_k": (
        *(
            "halves swapped",
            "high bits dropped",
            "high bits reversed",
            "unsigned scales",
            "scales shifted by one",
        ),
        *("scale at the start", "no offset", "one scale for 32", *BLOCK),
    ),
}
SIZES = {
    "ggml.f32": (1, 4),
    "ggml.f16": (1, 2),
    "ggml.bf16": (1, 2),
    "ggml.q4_0": (32, 18),
    "ggml.q4_1": (32, 20),
    "ggml.q5_0": (32, 22),
    "ggml.q5_1": (32, 24),
    "ggml.q8_0": (32, 34),
    "ggml.q4_k": (256, 144),
    "ggml.q6_k": (256, 210),
}


def decode(encoding, data, fault=None):
    """float32 [elements] of uint8 `data`, with one fault or none."""
    if encoding in PLAIN:
        return plain(encoding, data, fault)
    _, size = SIZES[encoding]
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    out = []
    for number, block in enumerate(blocks):
        header = blocks[number - 1] if fault == "scale of the block before" else block
        out += BLOCKS[encoding](block, header, fault)
    values = np.array(out, np.float32)
    return values + np.float32(0) if fault == "sign of zero lost" else values


PLAIN = {"ggml.f32": "f4", "ggml.f16": "f2", "ggml.bf16": "u2"}


def plain(encoding, data, fault):
    raw = np.frombuffer(data, (">" if fault == "big-endian" else "<") + PLAIN[encoding])
    if encoding == "ggml.bf16":
        values = (raw.astype(np.uint32) << 16).view(np.float32)
    else:
        values = raw.astype(np.float32)
    if fault == "subnormals flushed":
        smallest = 2.0**-14 if encoding == "ggml.f16" else 2.0**-126
        return np.where(np.abs(values) < smallest, np.copysign(np.float32(0), values), values)
    return np.where(values == 0, np.float32(0), values) if fault == "sign of zero lost" else values


def half(block, at, fault=None):
    value = struct.unpack_from("<e", block, at)[0]
    return math.copysign(0.0, value) if fault == "subnormal scale flushed" and abs(value) < 2**-14 else value


def nibbles(qs, fault):
    if fault == "bytes reversed":
        qs = qs[::-1]
    low, high = [b & 15 for b in qs], [b >> 4 for b in qs]
    if fault == "halves swapped":
        return high + low
    if fault == "interleaved":
        return [code for pair in zip(low, high, strict=True) for code in pair]
    return low + high


def with_high_bits(qh, qs, fault):
    word = int.from_bytes(qh, "big" if fault == "high bits big-endian" else "little")
    bits = [word >> j & 1 for j in range(32)]
    if fault == "high bits reversed":
        bits = bits[::-1]
    if fault == "high bits of the other half":
        bits = bits[16:] + bits[:16]
    if fault == "high bits dropped":
        bits = [0] * 32
    return [code | bit << 4 for code, bit in zip(nibbles(qs, fault), bits, strict=True)]


def scale_and_minimum(header, fault):
    d, m = half(header, 0), half(header, 2)
    if fault == "scale and minimum exchanged":
        return m, d
    return d, -m if fault == "minimum subtracted" else m


def q4_0(block, header, fault):
    return [half(header, 0, fault) * (q - 8 * (fault != "no offset")) for q in nibbles(block[2:], fault)]


def q4_1(block, header, fault):
    d, m = scale_and_minimum(header, fault)
    return [d * q + m for q in nibbles(block[2:18] if fault == "header of 2 bytes" else block[4:], fault)]


def q5_0(block, header, fault):
    codes = with_high_bits(block[2:6], block[6:], fault)
    return [half(header, 0) * (q - 16 * (fault != "no offset")) for q in codes]


def q5_1(block, header, fault):
    d, m = scale_and_minimum(header, fault)
    return [d * q + m for q in with_high_bits(block[4:8], block[8:], fault)]


def q8_0(block, header, fault):
    codes = block[:1:-1] if fault == "bytes reversed" else block[2:]
    return [half(header, 0, fault) * (q if fault == "unsigned" or q < 128 else q - 256) for q in codes]


def q4_k(block, header, fault):
    d, dmin = half(header, 0), half(header, 2)
    if fault == "d and dmin exchanged":
        d, dmin = dmin, d
    if fault == "minimum added":
        dmin = -dmin
    b, scales, minima = block[4:16], [], []
    for j in range(8):
        if j < 4:
            scales.append(b[j] & 63)
            minima.append(b[j + 4] & 63)
        else:
            top_s, top_m = b[j - 4] >> 6, b[j] >> 6
            if fault == "high parts dropped":
                top_s = top_m = 0
            if fault == "high parts crossed":
                top_s, top_m = top_m, top_s
            scales.append(b[j + 4] & 15 | top_s << 4)
            minima.append(b[j + 4] >> 4 | top_m << 4)
    if fault == "scales and minima exchanged":
        scales, minima = minima, scales
    if fault == "scales shifted by one":
        scales = scales[1:] + scales[:1]
    out, qs = [], block[16:]
    for j in range(8):
        run, shift = qs[32 * (j // 2) : 32 * (j // 2) + 32], 4 * (j % 2)
        if fault == "all low nibbles first":
            run, shift = qs[32 * (j % 4) : 32 * (j % 4) + 32], 4 * (j // 4)
        if fault == "halves swapped":
            shift = 4 - shift
        out += [d * scales[j] * (byte >> shift & 15) - dmin * minima[j] for byte in run]
    return out


def q6_k(block, header, fault):
    ql, qh, scales = block[:128], block[128:192], list(block[192:208])
    d = half(header, 0 if fault == "scale at the start" else 208)
    if fault != "unsigned scales":
        scales = [s - 256 if s > 127 else s for s in scales]
    if fault == "scales shifted by one":
        scales = scales[1:] + scales[:1]
    out = []
    for i in range(256):
        part, t, at = i // 128, i % 128 // 32, i % 32
        low_shift = 4 * (t // 2)
        low = (
            ql[64 * part + at + 32 * (t % 2)] >> (4 - low_shift if fault == "halves swapped" else low_shift)
            & 15
        )
        high = qh[32 * part + at] >> (2 * (3 - t) if fault == "high bits reversed" else 2 * t) & 3
        q = low | (0 if fault == "high bits dropped" else high) << 4
        scale = scales[i // 32 * 2 if fault == "one scale for 32" else i // 16]
        out.append(d * scale * (q - 32 * (fault != "no offset")))
    return out


BLOCKS = {
    "ggml.q4_0": q4_0,
    "ggml.q4_1": q4_1,
    "ggml.q5_0": q5_0,
    "ggml.q5_1": q5_1,
    "ggml.q8_0": q8_0,
    "ggml.q4_k": q4_k,
    "ggml.q6_k": q6_k,
}
