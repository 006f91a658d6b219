"""get_rows, set_rows, cpy and out_prod of our cpu backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cases.generators import ordinary_blocks, random_blocks
from harness.comparison.bounds import dot_product_bound
from harness.errors import UsageProblem
from kernels import cpu_ops, quantizer
from kernels.cpu_ops import cpy, get_rows, get_rows_back, out_prod, set_rows
from kernels.cpu_views import contiguous
from kernels.provider import dequantize
from kernels.units import encoded_bytes, load_units, unit

OFFERED = cpu_ops.offered()
EVERY = OFFERED["get_rows"]
WRITTEN = OFFERED["set_rows"]


def random_data(encoding: str, shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, encoded_bytes(unit(encoding), shape), dtype=np.uint8)


def ordinary_data(encoding: str, shape: tuple[int, ...]) -> np.ndarray:
    """uint8 [n_bytes], finite."""
    found, rng = unit(encoding), np.random.default_rng(2)
    if encoding in ("ggml.f32", "ggml.f16", "ggml.bf16"):
        return quantizer.quantize(encoding, rng.standard_normal(shape).astype(np.float32))
    n = encoded_bytes(found, shape) // found.block_bytes
    return ordinary_blocks(found, n, rng).reshape(-1)


def width(encoding: str) -> int:
    return 2 * max(unit(encoding).block_elems, 16)


@pytest.mark.parametrize("encoding", EVERY)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_get_rows_takes_the_rows_of_its_own_matrix_in_the_order_asked_for(
    encoding: str, dtype: type[np.integer]
) -> None:
    shape = (2, 3, 5, width(encoding))
    data = random_data(encoding, shape)
    indices = np.random.default_rng(3).integers(0, 5, (2, 3, 7)).astype(dtype)
    indices[..., :3] = [4, 0, 4]
    whole = dequantize(encoding, data, shape)
    np.testing.assert_array_equal(
        get_rows(encoding, data, shape, indices), np.take_along_axis(whole, indices[..., None], axis=2)
    )


@pytest.mark.parametrize("encoding", WRITTEN)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_set_rows_writes_its_rows_and_no_others(encoding: str, dtype: type[np.floating]) -> None:
    shape, found = (2, 4, 6, width(encoding)), unit(encoding)
    data = random_data(encoding, shape)
    values = np.random.default_rng(4).standard_normal((2, 4, 3, shape[-1])).astype(dtype)
    # Two entries for four matrices: the third one takes the first entry again.
    indices = np.array([[[5, 0, 2], [1, 4, 3]]])
    result = data.copy()
    set_rows(encoding, result, shape, values, indices)
    row_bytes = encoded_bytes(found, shape[-1:])
    wanted = data.reshape(2, 4, 6, row_bytes).copy()
    encoded = cpu_ops.encode(encoding, values.astype(np.float32)).reshape(2, 4, 3, row_bytes)
    for outer in range(2):
        for inner in range(4):
            wanted[outer, inner, indices[0, inner % 2]] = encoded[outer, inner]
    np.testing.assert_array_equal(result, wanted.reshape(-1))


def test_set_rows_keeps_the_last_of_the_rows_that_share_an_index() -> None:
    values = np.arange(1, 5, dtype=np.float32)[:, None] * np.ones(32, np.float32)
    data = np.zeros(2 * 34, np.uint8)
    set_rows("ggml.q8_0", data, (2, 32), values, np.array([1, 0, 1, 1]))
    assert dequantize("ggml.q8_0", data, (2, 32))[:, 0] == pytest.approx([2, 4], rel=1e-3)


def test_set_rows_writes_nothing_when_an_index_is_outside() -> None:
    data = np.zeros(2 * 34, np.uint8)
    with pytest.raises(UsageProblem, match=r"set_rows ggml\.q8_0: indices: got 2, wanted 0 to 1"):
        set_rows("ggml.q8_0", data, (2, 32), np.ones((2, 32), np.float32), np.array([0, 2]))
    assert not data.any()


@pytest.mark.parametrize("encoding", [name for name in WRITTEN if name != "ggml.iq4_nl"])
def test_set_rows_rounds_as_the_engines_ops_do(encoding: str) -> None:
    """The engine quantizes rows that it sets with the code for activations where an encoding has both."""
    values = np.random.default_rng(5).standard_normal((4, width(encoding))).astype(np.float32)
    data = np.zeros(encoded_bytes(unit(encoding), values.shape), np.uint8)
    set_rows(encoding, data, values.shape, values, np.arange(4))
    both = encoding in quantizer.offered()["quantize_activation"]
    function = quantizer.quantize_activation if both else quantizer.quantize
    np.testing.assert_array_equal(data, function(encoding, values))


def test_set_rows_searches_for_the_scale_of_iq4_nl() -> None:
    """The engine's op puts the largest magnitude at the least of the sixteen values, and looks no further."""
    values = np.zeros((1, 32), np.float32)
    values[0, :3] = [-127, 113, -49]
    data = np.zeros(18, np.uint8)
    set_rows("ggml.iq4_nl", data, (1, 32), values, np.array([0]))
    np.testing.assert_array_equal(dequantize("ggml.iq4_nl", data, (1, 32))[0, :3], values[0, :3])
    # The quantizer of weights would find a scale with less error for these.
    values = np.random.default_rng(8).standard_normal((64, 32)).astype(np.float32)
    data = np.zeros(64 * 18, np.uint8)
    set_rows("ggml.iq4_nl", data, (64, 32), values, np.arange(64))
    searched = dequantize("ggml.iq4_nl", quantizer.quantize("ggml.iq4_nl", values), values.shape)
    at_once = dequantize("ggml.iq4_nl", data, values.shape)
    weights = values * values
    worse = (weights * (at_once - values) ** 2).sum(axis=1) - (weights * (searched - values) ** 2).sum(axis=1)
    assert worse.sum() > 0
    largest = np.abs(values).argmax(axis=1)
    codes = data.reshape(64, 18)[:, 2:]
    assert not (
        np.where(
            largest < 16, codes[np.arange(64), largest % 16] & 15, codes[np.arange(64), largest % 16] >> 4
        )
    ).any()


def test_set_rows_writes_no_row_where_none_is_given() -> None:
    for encoding in WRITTEN:
        shape = (2, width(encoding))
        data = random_data(encoding, shape)
        before = data.copy()
        set_rows(encoding, data, shape, np.empty((0, shape[1]), np.float32), np.empty(0, np.int64))
        np.testing.assert_array_equal(data, before)


@pytest.mark.parametrize("encoding", sorted(quantizer.NEEDS_IMPORTANCE))
def test_an_importance_matrix_that_is_given_is_not_used(encoding: str) -> None:
    rng = np.random.default_rng(9)
    values, imatrix = rng.standard_normal((2, 256)).astype(np.float32), rng.random(256, np.float32) + 1
    data = np.zeros(encoded_bytes(unit(encoding), values.shape), np.uint8)
    set_rows(encoding, data, values.shape, values, np.arange(2), imatrix)
    np.testing.assert_array_equal(data, quantizer.quantize(encoding, values, imatrix))


def test_get_rows_back_sums_rows_with_one_index_and_leaves_the_others_zero() -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    gradient = contiguous("ggml.f32", values.reshape(-1).view(np.uint8), values.shape)
    total = get_rows_back(gradient, np.array([2, 0, 2], np.int32), 4)
    np.testing.assert_array_equal(total, [[3, 4, 5], [0, 0, 0], [6, 8, 10], [0, 0, 0]])
    for wrong in (np.array([4]), np.array([-1]), np.arange(5) % 4):
        with pytest.raises(UsageProblem, match=r"view of ggml\.f32: indices"):
            get_rows_back(gradient, wrong, 4)


@pytest.mark.parametrize("encoding", EVERY)
def test_cpy_to_the_same_encoding_changes_no_bit(encoding: str) -> None:
    shape = (2, 3, 4, width(encoding))
    found = unit(encoding)
    data = random_blocks(found, encoded_bytes(found, shape) // found.block_bytes, np.random.default_rng(6))
    np.testing.assert_array_equal(cpy(encoding, data.reshape(-1), shape, encoding), data.reshape(-1))
    moved = cpy(encoding, data.reshape(-1), shape, encoding, axes=(0, 2, 1, 3))
    rows = data.reshape(2, 3, 4, -1).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(moved, rows.reshape(-1))


@pytest.mark.parametrize("encoding", EVERY)
def test_cpy_to_f32_decodes(encoding: str) -> None:
    shape = (2, 3, width(encoding))
    data = random_data(encoding, shape)
    decoded = cpy(encoding, data, shape, "ggml.f32", axes=(1, 0, 2)).view(np.float32)
    wanted = dequantize(encoding, data, shape).transpose(1, 0, 2)
    np.testing.assert_array_equal(decoded, wanted.reshape(-1))


SOURCES = ("ggml.f32", "ggml.f16", "ggml.bf16", "ggml.q4_1")


@pytest.mark.parametrize(("source", "target"), [(s, t) for s in SOURCES for t in OFFERED["cpy"] if s != t])
def test_cpy_between_encodings_quantizes_the_decoded_values(source: str, target: str) -> None:
    shape = (3, 2, width(target))
    data = ordinary_data(source, shape)
    values = np.ascontiguousarray(dequantize(source, data, shape).transpose(1, 0, 2))
    np.testing.assert_array_equal(
        cpy(source, data, shape, target, axes=(1, 0, 2)), cpu_ops.encode(target, values)
    )


def test_cpy_of_plain_values_moves_the_last_dimension() -> None:
    data = random_data("ggml.f16", (3, 5))
    moved = cpy("ggml.f16", data, (3, 5), "ggml.f16", axes=(1, 0)).view(np.uint16)
    np.testing.assert_array_equal(moved.reshape(5, 3), data.view(np.uint16).reshape(3, 5).T)


@pytest.mark.parametrize("encoding", EVERY)
def test_out_prod_is_the_sum_of_outer_products(encoding: str) -> None:
    k, n, m = 19, 6, width(encoding)
    data = ordinary_data(encoding, (k, m))
    # A transposed view: out_prod takes any strides of x.
    x = np.random.default_rng(7).standard_normal((n, k)).astype(np.float32).T
    w = dequantize(encoding, data, (k, m)).astype(np.float64)
    exact = sum(np.outer(x[r].astype(np.float64), w[r]) for r in range(k))
    # One rounding, of the float64 sum.
    limit = dot_product_bound(1, np.abs(exact), 2.0**-24).limit
    result = out_prod(encoding, data, (k, m), x)
    assert result.dtype == np.float32
    assert result.shape == (n, m)
    assert np.all(np.abs(result - exact) <= limit + 1e-13 * np.abs(exact).max() + 2.0**-149)


def test_out_prod_of_more_rows_than_a_run_holds_sums_them_all() -> None:
    k, m = 5000, 32
    data = np.tile(ordinary_data("ggml.q4_0", (1, m)), k)
    row = dequantize("ggml.q4_0", data[:18], (1, m))
    result = out_prod("ggml.q4_0", data, (k, m), np.ones((k, 2), np.float32))
    np.testing.assert_allclose(result, np.repeat(row * k, 2, axis=0), rtol=2**-23)


@pytest.mark.parametrize("encoding", ["ggml.iq1_s", "ggml.iq2_xxs"])
def test_an_encoding_that_needs_an_importance_matrix_is_written_to_by_no_op(encoding: str) -> None:
    values = np.ones((1, 256), np.float32)
    data = np.zeros(encoded_bytes(unit(encoding), (1, 256)), np.uint8)
    with pytest.raises(UsageProblem, match=encoding):
        set_rows(encoding, data, (1, 256), values, np.array([0]))
    with pytest.raises(UsageProblem, match=encoding):
        cpy("ggml.f32", values.view(np.uint8).reshape(-1), (1, 256), encoding)


@pytest.mark.parametrize("op", ["get_rows", "set_rows", "cpy", "out_prod"])
def test_the_units_declare_what_the_ops_take(op: str) -> None:
    assert {e for e, found in load_units().items() if "cpu" in found.ops.get(op, ())} == set(OFFERED[op])


DATA, VALUES, ONE = np.zeros(108, np.uint8), np.zeros((1, 64), np.float32), np.array([0])
SHAPE = (3, 64)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: get_rows("ggml.q4_0", DATA, (192,), ONE), r"get_rows ggml.q4_0: shape: got \(192,\)"),
        (lambda: get_rows("ggml.q4_0", DATA[:-1], SHAPE, ONE), r"data: got shape \(107,\)"),
        (lambda: get_rows("ggml.q4_0", DATA, SHAPE, np.array([0.0])), "indices: got float64, wanted .*int64"),
        (lambda: get_rows("ggml.q4_0", DATA, SHAPE, [0]), "indices: got list"),
        (lambda: get_rows("ggml.q4_0", DATA, SHAPE, np.array(0)), "indices: got no dimension"),
        (lambda: get_rows("ggml.q4_0", DATA, SHAPE, np.array([-1])), "indices: got -1, wanted 0 to 2"),
        (lambda: get_rows("ggml.q4_0", DATA, SHAPE, np.array([3])), "indices: got 3, wanted 0 to 2"),
        (lambda: get_rows("ggml.q4_0", DATA, SHAPE, np.array([[0]])), r"indices: got shape \(1, 1\)"),
        (lambda: set_rows("ggml.q4_0", DATA, SHAPE, VALUES.astype(float), ONE), "values: got float64"),
        (lambda: set_rows("ggml.q4_0", DATA, SHAPE, VALUES[:, :32], ONE), r"values: got shape \(1, 32\)"),
        (lambda: set_rows("ggml.q4_0", DATA, SHAPE, VALUES, np.array([[0]])), "indices: got shape"),
        (
            lambda: set_rows(
                "ggml.q4_0",
                np.zeros(144, np.uint8),
                (4, 1, 64),
                VALUES[None].repeat(4, 0),
                np.zeros((3, 1), int),
            ),
            r"indices: got shape \(3, 1\), wanted divisors of \(4, 'r'\)",
        ),
        (
            lambda: set_rows("ggml.q4_0", np.frombuffer(bytes(108), np.uint8), SHAPE, VALUES, ONE),
            "data: got read-only memory",
        ),
        (lambda: cpy("ggml.q4_0", DATA, SHAPE, "ggml.q4_0", axes=(1, 0)), "blocks run along that dimension"),
        (lambda: cpy("ggml.q4_0", DATA, SHAPE, "ggml.q4_0", axes=(0, 0)), "each of 0 to 1 once"),
        (lambda: cpy("ggml.q4_0", DATA, SHAPE, "ggml.q4_k"), "not a multiple of the block of 256"),
        (lambda: cpy("ggml.q4_0", DATA, SHAPE, "ggml.q9_k"), "unknown encoding"),
        (lambda: out_prod("ggml.q4_0", DATA, (192,), VALUES), r"shape: got \(192,\)"),
        (lambda: out_prod("ggml.q4_0", DATA, SHAPE, VALUES), r"x: got shape \(1, 64\), wanted \(3, n\)"),
        (lambda: out_prod("ggml.q4_0", DATA, SHAPE, VALUES.astype(float)), "x: got float64"),
    ],
)
def test_an_argument_that_is_not_what_it_should_be_is_refused_by_name(
    call: Callable[[], Any], said: str
) -> None:
    with pytest.raises(UsageProblem, match=said):
        call()
