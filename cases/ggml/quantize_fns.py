"""llama.cpp's test-quantize-fns: its data, its three statistics and their bounds, and the families ported from it.

Every byte here is made by the oracle's quantizer, and the subject is our decode of them: our own quantizers give the same
bytes (kernels/tests/test_quantize_bits.py). Upstream's statistic is computed with our decode and stands beside our bound, which decides.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cases.ggml.decode import ENCODINGS
from cases.ggml.family import decodes
from cases.upstream.inventory import load_inventory
from harness.comparison.bounds import Bound, dot_product_bound
from harness.evidence.case import Ancestor
from kernels.provider import dequantize
from kernels.units import Unit, load_units, unit

SOURCE = "tests/test-quantize-fns.cpp"
SIZE = 4096
"""Elements of upstream's one row of data."""

FLOAT32_ROUNDOFF = 2.0**-24
FLOAT16_ROUNDOFF = 2.0**-11

_FILE = next(file for file in load_inventory("llama.cpp").files if file.path == SOURCE)

NEWER = {"total_error": {"ggml.q2_0": 0.01}, "dot_error": {"ggml.q2_0": 0.15}}
"""Q2_0 came after the inventory's release: llama.cpp 0c1e57098."""
IN_UPSTREAM = frozenset(f"ggml.{name.lower()}" for name in _FILE.tests[0].axes[0].values or ()) | {
    "ggml.q2_0"
}
"""The types that upstream's loop reaches: those with a quantizer for one row and a decoder."""

NO_QUANTIZER = frozenset({"ggml.f32", "ggml.q8_1", "ggml.q8_k"})
"""Not in upstream's loop and not quantized as weights: float32 itself, and the activation encodings."""
NEEDS_IMPORTANCE = frozenset({"ggml.iq1_s", "ggml.iq2_xs", "ggml.iq2_xxs"})
"""The engine quantizes these with an importance matrix only; here every column counts the same."""
WEIGHTS = tuple(name for name in ENCODINGS if name not in NO_QUANTIZER)

SECOND_QUANTIZER: Mapping[str, str] = {
    found.activation: found.encoding
    for found in load_units().values()
    if found.activation in WEIGHTS and found.dialect == "ggml"
}
"""Encodings that the engine also quantizes activations to, each with weights whose product wants it. Only these have
a quantizer of the CPU backend's own; for every other type upstream compares the reference quantizer with itself."""

F32_LENGTHS = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 67, 127, 129, 193, 255, 1023)


def upstream_data(offset: float, size: int = SIZE) -> npt.NDArray[np.float32]:
    """Upstream's synthetic row, float32 [size]: x[i] = 0.1 + 2 cos(i + offset)."""
    angle = np.arange(size, dtype=np.float32) + np.float32(offset)
    return (0.1 + (np.float32(2) * np.cos(angle)).astype(np.float64)).astype(np.float32)


def upstream_rmse(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    """What upstream calls the RMSE: the root of the summed squares, over n and not over its root."""
    difference = (a - b).astype(np.float64)
    return float(np.sqrt(np.square(difference).sum()) / a.size)


def upstream_dot_error(product: float, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    """Distance of a product from that of the unquantized rows, over n."""
    return abs(product - float(a.astype(np.float64) @ b.astype(np.float64))) / a.size


def upstream_bound(check: str, encoding: str) -> float:
    """Upstream's limit for `total_error`, `reference_error` or `dot_error` of an encoding; its statistic stays below."""
    limits = _FILE.bounds[check]
    if not isinstance(limits, dict):
        return float(limits)
    name = encoding.removeprefix("ggml.").upper()
    if encoding in NEWER.get(check, {}):
        return NEWER[check][encoding]
    if name in limits.get("lowbit_0_04", ()):
        return 0.04
    return float(limits.get(name, limits["default"]))


def holds(check: str, encoding: str, statistic: float) -> bool | None:
    """Whether upstream would be content. None for a type that its loop never reaches, limit or not."""
    if encoding not in IN_UPSTREAM:
        return None
    with np.errstate(invalid="ignore"):
        return bool(statistic < upstream_bound(check, encoding))


def dot_bound(
    weights: Unit, data: npt.NDArray[np.uint8], activations: Unit, y: npt.NDArray[np.uint8]
) -> Bound:
    """How far the engine's product of two encoded rows of SIZE elements may be from that of their decoded values.

    The engine adds integers exactly within a sub-block, of 16 weights at the least, and single-precision numbers
    otherwise: at most SIZE / 16 additions in a row and a few multiplications by scales, of any summands whose
    magnitudes add up to no more than sum (|w| + 2 |m|) |y|, m being the minimum that a block adds to its products.
    Floating-point weights are added one by one. Q8_1 stores the sum of its block in half precision, and the minimum
    is multiplied by that: one more rounding of each |m| |sum y|, to 11 bits (or to a multiple of 2^-24, below the
    half-precision normals, which the second term covers).
    """
    w = dequantize(weights.encoding, data, (SIZE,)).astype(np.float64)
    v = dequantize(activations.encoding, y, (SIZE,)).astype(np.float64)
    minimum = _minimum(weights, data)
    terms = SIZE if weights.block_elems == 1 else SIZE // 16 + 16
    magnitude = np.abs(v) @ (np.abs(w) + 2 * np.abs(minimum))
    base = dot_product_bound(terms, np.asarray(magnitude), FLOAT32_ROUNDOFF)
    limit = np.asarray(base.limit)
    if activations.encoding == "ggml.q8_1":
        blocks = (-1, activations.block_elems)
        sums = np.abs(v.reshape(blocks).sum(axis=1)) * FLOAT16_ROUNDOFF + 2.0**-25
        limit = limit + np.abs(minimum.reshape(blocks)[:, 0]) @ sums * (1 + FLOAT16_ROUNDOFF)
    return Bound(limit, DOT_BOUND, upstream_bound("dot_error", weights.encoding) * SIZE)


def _minimum(weights: Unit, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """What each weight's block adds to scale times code, float64 [SIZE]; zeros where there is no minimum."""
    if not any(field.role == "min" for field in weights.fields):
        return np.zeros(SIZE)
    blocks = data.reshape(-1, weights.block_bytes).copy()
    for field in weights.fields:
        if field.role in ("code", "code_high"):
            blocks[:, field.offset : field.offset + field.bytes] = 0
    return dequantize(weights.encoding, blocks.reshape(-1), (SIZE,)).astype(np.float64)


DOT_BOUND = "gamma_(n/16+16)(u=2^-24) * sum (|w| + 2|m|) |y|, and 2^-11 |m| |sum y| a block for Q8_1"
F32_BOUND = "gamma_(n+1)(u=2^-24) * sum |a||b|"

_FILES = (Path(__file__), Path(__file__).parent / "test_quantize_fns.py")


def _ancestors(bound: str, test: str = "main loop per ggml_type") -> tuple[Ancestor, ...]:
    return (Ancestor(engine="llama.cpp", file=SOURCE, test=test, bound=bound),)


_ported = functools.partial(decodes, files=_FILES)
ABSOLUTE = _ported(
    "ggml.quantize_fns_total", WEIGHTS, {}, upstream=_ancestors("sqrt(sum d^2) / n below a limit by type")
)
REFERENCE = _ported(
    "ggml.quantize_fns_reference",
    tuple(SECOND_QUANTIZER),
    {},
    upstream=_ancestors("sqrt(sum d^2) / n between two quantizers below 1e-4"),
)
DOT = _ported(
    "ggml.quantize_fns_dot",
    WEIGHTS,
    {},
    bound=DOT_BOUND,
    upstream=_ancestors("|product - that of the unquantized rows| / n below a limit by type"),
)
F32_DOT = _ported(
    "ggml.quantize_fns_f32_dot",
    ("ggml.f32",),
    {"n": tuple(map(str, F32_LENGTHS))},
    bound=F32_BOUND,
    upstream=_ancestors("|difference| / n below 1e-4", "test_vec_dot_f32"),
)


def activation_of(encoding: str) -> Unit:
    """The unit that the engine's product with these weights wants of the other operand."""
    found = unit(encoding).activation
    assert found is not None, f"{encoding} has no product"
    return unit(found)
