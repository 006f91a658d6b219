"""How far a dot product of quantized rows may be from the exact one, and from the engine's: the derivation.

Whatever computes the formula of `kernels.common.numpy.matmul` in single precision makes the same kinds of error. With
u = 2^-24, S the sum of the magnitudes of all products (of codes, and of minima with sums), and c the roundings that a
product passes through at most:

    |result - exact| <= gamma_c * S + underflow,    gamma_c = c u / (1 - c u)

- Integer sums are exact. A group's sum passes through at most 4 roundings on its own: the product of the two scales,
  the conversion of the integer, the product of both, and a last factor or a joining of two accumulators.
- It then passes through the additions of its accumulator. There is one for each group, and one more where the encoding
  has minima and the engine adds them to the same accumulator (Q2_K). The engine splits a sum over 8 accumulators, which
  costs 7 more, and adds what the minima gave, 1. So c = groups * (1 or 2) + 12.
- The engine's x86-64 code adds once for each pair of scales; so does its generic code but for IQ4_XS.
- Of some encodings the engine's x86-64 code sums a code in two parts, in different accumulators: Q6_K and the ternary
  ones as q and the centre that is taken off, IQ1 as the value of the grid and its shift. Their magnitudes add up to
  more than that of the code, and so does the engine's S.
- Plain values (F32, F16, BF16) are summed in 32 lanes: c = k / 32 + 12.
- A product that is subnormal is rounded to a multiple of 2^-149, and the scales' product, before integers multiply it.

Two results that each keep to this, ours and the engine's, differ by the sum of both at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.comparison.bounds import Bound, dot_product_bound
from kernels.common.numpy.matmul import Offsets, Operand
from kernels.cpu_matmul import activation_operand, partner_of, weight_operand
from kernels.provider import dequantize
from kernels.units import unit

Doubles = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-24
HALF_OF_SMALLEST = 2.0**-150
LARGEST = float(np.finfo(np.float32).max)
LANES = 32
ROUNDINGS = 12
CENTRE_APART = frozenset({"ggml.q6_k", "ggml.tq1_0", "ggml.tq2_0"})
SHIFT_APART = frozenset({"ggml.iq1_s", "ggml.iq1_m"})
"""What the engine sums in two parts, see above. A shifted value of 7/8 is 1 less 1/8: magnitudes of 9/7 of it."""


@dataclass(frozen=True)
class Judge:
    """What a product [m, n] of given operands is held against.

    `exact`: the formula in float64, with the sums that the activations carry. `dequantized`: the float64 product of the
    dequantized operands, which differs for Q8_1 activations alone. `settled`: where the bounds hold; elsewhere a scale
    is infinite or NaN, or a sum may overflow, and the order of the additions decides what comes out.
    """

    exact: Doubles
    dequantized: Doubles
    settled: NDArray[np.bool_]
    against_exact: Bound
    against_dequantized: Bound
    against_engine: Bound


def judge(
    encoding: str, activation_rows: NDArray[np.uint8], data: NDArray[np.uint8], shape: tuple[int, int]
) -> Judge:
    """Of activations uint8 [m, row_bytes] and weights uint8 [n_bytes] of `shape` (n, k), both encoded."""
    n, k = shape
    m = len(activation_rows)
    partner = partner_of(encoding)
    with np.errstate(all="ignore"):
        a = dequantize(partner.encoding, activation_rows.reshape(-1), (m, k)).astype(np.float64)
        w = dequantize(encoding, data, shape).astype(np.float64)
        dequantized = a @ w.T
        # Both decodes round (Q8_K's product, the subtraction of a minimum), and float64 sums.
        decoded = 3 * UNIT_ROUNDOFF * (np.abs(a) @ np.abs(w).T)
        x = activation_operand(encoding, activation_rows)
        if not isinstance(x, Operand):
            ours = engines = np.abs(a) @ np.abs(w).T
            terms, underflow = -(-k // LANES) + ROUNDINGS, np.full((m, n), 2 * k * HALF_OF_SMALLEST)
            largest_scale, stored, lost = ours, np.zeros((m, n)), np.zeros((m, n))
        else:
            rows = data.reshape(n, -1)
            y = weight_operand(encoding, rows)
            ours, engines = _magnitude(x, y), _magnitude(x, _as_summed(encoding, rows, y))
            terms, underflow = _terms(x, y), _underflow(x, y)
            largest_scale = _largest(x.scales)[:, None] * _largest(y.scales)
            stored, lost = _stored_sums(x, y)
        settled = (engines <= LARGEST / 8) & (largest_scale <= LARGEST)

    def bound(magnitude: Doubles, more: Doubles, what: str) -> Bound:
        product = dot_product_bound(terms, np.where(settled, magnitude, 0.0), UNIT_ROUNDOFF)
        assert product.limit is not None
        return Bound(product.limit + np.where(settled, more, 0.0), f"{product.derivation} + {what}")

    return Judge(
        exact=dequantized + stored,
        dequantized=dequantized,
        settled=settled,
        against_exact=bound(ours, decoded + underflow, "decoding + underflow"),
        against_dequantized=bound(
            ours, decoded + underflow + lost, "decoding + underflow + rounding of the sums"
        ),
        against_engine=bound(ours + engines, 2 * underflow, "underflow, for either side"),
    )


def _magnitude(x: Operand, w: Operand) -> Doubles:
    """S [m, n]."""
    magnitude = _scaled(x) @ _scaled(w).T
    if x.offsets is not None and w.offsets is not None:
        magnitude += _scaled_offsets(x.offsets) @ _scaled_offsets(w.offsets).T
    return magnitude


def _terms(x: Operand, w: Operand) -> int:
    """c, the roundings that a product passes through at most."""
    groups: int = max(x.scales.shape[1], w.scales.shape[1])
    return groups * (1 if w.offsets is None else 2) + ROUNDINGS


def _underflow(x: Operand, w: Operand) -> Doubles:
    """What it costs that products of scales, and these times integers, may be subnormal [m, n]."""
    integers = np.abs(x.codes).astype(np.float64) @ np.abs(w.codes).astype(np.float64).T
    if x.offsets is not None and w.offsets is not None:
        sums, minima = (np.abs(o.values).astype(np.float64) for o in (x.offsets, w.offsets))
        integers += sums.reshape(len(sums), -1) @ minima.reshape(len(minima), -1).T
    return HALF_OF_SMALLEST * (integers + 4 * _terms(x, w))


def _scaled(operand: Operand) -> Doubles:
    """The magnitudes of codes times scales [rows, cols]."""
    scales = np.repeat(np.abs(operand.scales).astype(np.float64), operand.group, axis=1)
    scaled: Doubles = np.abs(operand.codes) * scales
    return scaled


def _scaled_offsets(offsets: Offsets) -> Doubles:
    """The magnitudes of minima, or sums, times their scales [rows, blocks * parts]."""
    scaled: Doubles = np.abs(offsets.values) * np.abs(offsets.scales).astype(np.float64)[:, :, None]
    return scaled.reshape(len(scaled), -1)


def _as_summed(encoding: str, rows: NDArray[np.uint8], w: Operand) -> Operand:
    """The weights with the magnitudes of the parts in which the engine sums their codes."""
    if encoding in SHIFT_APART:
        return replace(w, codes=w.codes * np.float32(9 / 7))
    if encoding not in CENTRE_APART:
        return w
    found = unit(encoding)
    blocks = rows.reshape(-1, found.block_bytes).copy()
    for field in found.fields:
        if field.role in ("code", "code_high"):
            blocks[:, field.offset : field.offset + field.bytes] = 0
    centre = weight_operand(encoding, blocks.reshape(rows.shape)).codes
    return replace(w, codes=np.abs(w.codes - centre) + np.abs(centre))


def _stored_sums(x: Operand, w: Operand) -> tuple[Doubles, Doubles]:
    """What the stored sums of Q8_1 add to the product of the dequantized operands, and how much that is at most [m, n].

    A stored sum is fp16(d * sum of q) of a d that is itself stored in half precision: either rounds by 2^-11 of it,
    or by 2^-25 where it is subnormal (d, before the integer sum multiplies it).
    """
    nothing = np.zeros((len(x.codes), len(w.codes)))
    if x.offsets is None or w.offsets is None or x.offsets.values.shape[2] > 1:
        return nothing, nothing
    m, blocks = x.scales.shape
    integers = x.codes.reshape(m, blocks, -1).sum(axis=2, dtype=np.float64)
    ours = x.scales.astype(np.float64) * integers
    minima = w.offsets.scales.astype(np.float64).T
    stored = x.offsets.scales.astype(np.float64) - ours
    lost = np.abs(ours) * 2.0**-10 * (1 + 2.0**-10) + 2.0**-25 * (np.abs(integers) + 1)
    lost[~np.isfinite(stored)] = np.inf
    return stored @ minima, lost @ np.abs(minima)


def _largest(scales: NDArray[np.float32]) -> Doubles:
    largest: Doubles = np.abs(scales).astype(np.float64).max(axis=1)
    return largest
