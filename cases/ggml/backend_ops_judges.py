"""Who judges a test-backend-ops case beside the engine's own op: definitions in float64, and of bytes.

Each is written from what the op means, on operands that the engine quantized, encoded or decoded, and knows nothing of
our kernels for it. A product takes its terms, and how far the engine may be off, from `kernels.cpu_matmul_bound`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cases.ggml.backend_ops_tensors import Bytes, Floats, Tensor, encoded, index_values, run, whole
from harness.comparison.bounds import dot_product_bound
from harness.plugin.judging import Opinion
from harness.plugin.opinions import own_judge
from kernels import cpu_matmul_bound
from kernels.cpu_matmul import partner_of
from kernels.cpu_views import INTEGERS, block_of
from kernels.units import unit
from oracles.pool import Oracle

Doubles = npt.NDArray[np.float64]
Part = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Bytes]
"""Rows of the result, the rows of activations behind them, and the matrix of weights that they share."""

SMALL = 1 << 13
"""Weights that are judged at a time, in whole matrices: few enough that a product of them stays on one thread."""

ROUNDOFF = 2.0**-24
HALF_OF_SMALLEST = 2.0**-150
LANES, ROUNDINGS = 8, 12
"""A product of floats is summed in 8 lanes at least (one AVX2 register), which are then joined."""


def by_definition(values: npt.NDArray[np.generic]) -> Opinion:
    """The opinion of this file."""
    return Opinion(
        own_judge("definition", [Path(__file__), Path(cpu_matmul_bound.__file__)]), np.asarray(values)
    )


def normalized_error(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> float:
    """Upstream's statistic: the summed squares of the difference over those of `a`."""
    wide = a.astype(np.float64)
    off = float(np.square(wide - b).sum())
    return off / float(np.square(wide).sum()) if off else 0.0


def decode(engine: Oracle, encoding: str, blocks: Bytes, shape: tuple[int, ...]) -> Floats:
    """float32 [shape], by the decoder of the engine's type table; 32-bit integers become the nearest floats."""
    if encoding in INTEGERS:
        return blocks.reshape(-1).view(INTEGERS[encoding]).reshape(shape).astype(np.float32)
    return engine.dequantize(encoding, blocks.reshape(-1), shape).arrays["values"]


def widened(engine: Oracle, tensor: Tensor, array: str) -> Tensor:
    """The same values in float32, as the engine decodes them, in one piece."""
    values = decode(engine, tensor.encoding, tensor.blocks(), tensor.ne[::-1])
    return whole("ggml.f32", values.reshape(-1).view(np.uint8), tensor.ne, array)


def products(
    engine: Oracle, encoding: str, x: Floats, parts: Iterable[Part], shape: tuple[int, int, int]
) -> tuple[Doubles, Doubles]:
    """Of activations `x` [rows, k] with the matrices of `parts`: the exact product and the bound, both [count, n].

    `shape` is (count, n, k). The engine encodes the activations; a part then covers some rows of the result.
    """
    count, n, k = shape
    answer = engine.call("quantize_activation", {"encoding": encoding}, {"values": x.reshape(-1, k)})
    rows = answer.arrays["data"]
    exact, limit = np.zeros((count, n)), np.zeros((count, n))
    if unit(encoding).block_elems == 1:
        every = list(parts)
        a = decode(engine, partner_of(encoding).encoding, rows, (len(rows), k))
        weights = np.concatenate([data for _, _, data in every])
        w = decode(engine, encoding, weights, (len(every), n, k))
        for (places, chosen, _), matrix in zip(every, w, strict=True):
            exact[places], limit[places] = _of_floats(a[chosen], matrix)
        return exact, limit
    used = (part for part in parts if part[0].size)
    while group := list(itertools.islice(used, max(1, SMALL // (n * k)))):
        # Small matrices are judged side by side: of all products with all weights each keeps its own.
        chosen = np.concatenate([chosen for _, chosen, _ in group])
        data = np.concatenate([data for _, _, data in group])
        judged = cpu_matmul_bound.judge(encoding, rows[chosen], data, (len(group) * n, k))
        assert judged.settled.all(), "uniform operands with a scale that is not finite"
        assert isinstance(judged.against_engine.limit, np.ndarray)
        start = 0
        for number, (places, _, _) in enumerate(group):
            own = np.s_[start : start + places.size, number * n : (number + 1) * n]
            exact[places], limit[places] = judged.exact[own], judged.against_engine.limit[own]
            start += places.size
    return exact, limit


def _of_floats(a: Floats, w: Floats) -> tuple[Doubles, Doubles]:
    """Of rows [m, k] and [n, k] of floats: the exact product and the bound, both [m, n]."""
    wide_a, wide_w = a.astype(np.float64), w.astype(np.float64)
    exact = wide_a @ wide_w.T
    size = np.abs(wide_a) @ np.abs(wide_w).T
    k = a.shape[1]
    product = dot_product_bound(-(-k // LANES) + ROUNDINGS, size, ROUNDOFF)
    assert product.limit is not None
    # Ours is rounded once.
    return exact, product.limit + ROUNDOFF * np.abs(exact) + 2 * k * HALF_OF_SMALLEST


def batches(a: Tensor, b: Tensor) -> Iterator[Part]:
    """Each matrix of `a`, with the matrices of `b` that share it."""
    numbers = np.arange(b.ne[1] * b.ne[2] * b.ne[3]).reshape(b.ne[:0:-1])
    outer, inner = b.ne[3] // a.ne[3], b.ne[2] // a.ne[2]
    matrices = a.blocks().reshape(a.ne[3], a.ne[2], -1)
    for i3, i2 in np.ndindex(a.ne[3], a.ne[2]):
        places = numbers[i3 * outer : (i3 + 1) * outer, i2 * inner : (i2 + 1) * inner].reshape(-1)
        yield places, places, matrices[i3, i2]


def experts(a: Tensor, b: Tensor, ids: npt.NDArray[np.integer]) -> Iterator[Part]:
    """Each expert of `a`, with the (token, slot) pairs whose id [tokens, used] is it."""
    used, own = ids.shape[1], b.ne[1]
    matrices = a.blocks().reshape(a.ne[2], -1)
    for expert in range(a.ne[2]):
        token, slot = np.nonzero(ids == expert)
        yield token * used + slot, token * own + slot % own, matrices[expert]


def outer_products(engine: Oracle, a: Tensor, b: Tensor) -> tuple[Doubles, Doubles]:
    """The sum of b[r, i] * a[r, j] over r and its bound, both [b3, b2, n, m]."""
    w = decode(engine, a.encoding, a.blocks(), a.ne[::-1]).astype(np.float64)
    x = decode(engine, b.encoding, b.blocks(), b.ne[::-1]).astype(np.float64)
    w = w.repeat(b.ne[3] // a.ne[3], axis=0).repeat(b.ne[2] // a.ne[2], axis=1)
    exact = np.einsum("abri,abrj->abij", x, w)
    size = np.einsum("abri,abrj->abij", np.abs(x), np.abs(w))
    bound = dot_product_bound(a.ne[1] + 1, size, ROUNDOFF)
    assert bound.limit is not None
    return exact, bound.limit + a.ne[1] * HALF_OF_SMALLEST


def picked(a: Tensor, rows: Tensor) -> Bytes:
    """The blocks of the rows that are asked for: uint8 [be2, be1, r, row_bytes]."""
    matrices = a.blocks().reshape(*a.ne[:0:-1], -1)
    return np.stack(
        [
            np.stack([matrix[index] for matrix, index in zip(outer, chosen, strict=True)])
            for outer, chosen in zip(matrices, index_values(rows), strict=True)
        ]
    )


def summed(
    gradient: Floats, rows: npt.NDArray[np.integer], height: int, terms: int
) -> tuple[Doubles, Doubles]:
    """The gradient's rows summed by index, [height, cols], and the bound of a single-precision sum of them."""
    total, size = (np.zeros((height, gradient.shape[1])) for _ in range(2))
    for index, values in zip(rows, gradient, strict=False):
        total[index] += values.astype(np.float64)
        size[index] += np.abs(values)
    bound = dot_product_bound(terms, size, ROUNDOFF)
    assert isinstance(bound.limit, np.ndarray)
    return total, bound.limit


def encoded_by_an_op(engine: Oracle, encoding: str, values: Floats) -> Bytes:
    """`values` [rows, cols] as the engine's ops write them: uint8 [rows, row_bytes].

    They share the code that quantizes activations. It differs from the quantizer of weights for Q8_0, which as an
    activation can be asked for by itself, and for IQ4_NL, which only a copy of the rows gives.
    """
    rows, cols = values.shape
    if encoding == "ggml.q8_0":
        answer = engine.call("quantize_activation", {"encoding": "ggml.q4_0"}, {"values": values})
        return answer.arrays["data"]
    if encoding != "ggml.iq4_nl":
        return encoded(engine, encoding, values).reshape(rows, -1)
    elems, size = block_of(encoding)
    n_bytes = values.size // elems * size
    source = whole("ggml.f32", values.reshape(-1).view(np.uint8), (cols, rows, 1, 1), "values")
    target = whole(encoding, np.empty(0, np.uint8), (cols, rows, 1, 1), None, result=True)
    copied = run(engine, "cpy", (source, target), n_bytes)
    assert copied is not None, "the engine writes no IQ4_NL"
    return copied.reshape(rows, -1)


def copied(engine: Oracle, source: Tensor, target: Tensor) -> Bytes:
    """The memory of `target` once `source`, element after element, was written to it."""
    elems, size = block_of(target.encoding)
    memory = np.full(target.memory.size, 0xFF, np.uint8)
    counts = (*target.ne[:0:-1], target.ne[0] // elems, size)
    blocks = np.lib.stride_tricks.as_strided(memory, counts, (*target.nb[::-1], 1))
    if source.encoding == target.encoding:
        blocks[...] = source.blocks().reshape(counts)
        return memory
    values = decode(engine, source.encoding, source.blocks(), source.ne[::-1])
    if target.encoding in INTEGERS:
        new = np.trunc(values).astype(INTEGERS[target.encoding]).reshape(-1).view(np.uint8)
    else:
        new = encoded_by_an_op(engine, target.encoding, values.reshape(-1, target.ne[0]))
    blocks[...] = new.reshape(counts)
    return memory


def replaced(engine: Oracle, target: Tensor, values: Tensor, rows: Tensor) -> Bytes:
    """The memory of `target` once each row of `values` was written over the row that its index names."""
    memory = target.memory.copy()
    held = memory.reshape(*target.ne[:0:-1], -1)
    source = decode(engine, values.encoding, values.blocks(), values.ne[::-1])
    if not source.size:
        return memory
    new = encoded_by_an_op(engine, target.encoding, source.reshape(-1, source.shape[-1]))
    new = new.reshape(*source.shape[:-1], -1)
    index = index_values(rows)
    for i3, i2, i1 in np.ndindex(*source.shape[:-1]):
        held[i3, i2, index[i3 % len(index), i2 % index.shape[1], i1]] = new[i3, i2, i1]
    return memory
