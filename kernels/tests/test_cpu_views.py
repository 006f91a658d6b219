"""Views of the cpu backend, and the ops that take them: copies and products of batches at strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cases.generators import ordinary_blocks
from harness.errors import UsageProblem
from kernels import quantizer
from kernels.cpu_batched import matmul, out_prod
from kernels.cpu_matmul import matmul as one_matmul
from kernels.cpu_moe import moe_matmul
from kernels.cpu_ops import copy, encode
from kernels.cpu_ops import out_prod as one_out_prod
from kernels.cpu_views import View, contiguous
from kernels.provider import dequantize
from kernels.units import encoded_bytes, unit

WEIGHTS = ("ggml.f32", "ggml.bf16", "ggml.q4_0", "ggml.q4_1", "ggml.q5_k", "ggml.iq2_xxs")


def data_of(encoding: str, shape: tuple[int, ...]) -> np.ndarray:
    """uint8 [n_bytes], finite."""
    found, rng = unit(encoding), np.random.default_rng(1)
    if found.block_elems == 1:
        return quantizer.quantize(encoding, rng.standard_normal(shape).astype(np.float32))
    return ordinary_blocks(found, encoded_bytes(found, shape) // found.block_bytes, rng).reshape(-1)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def view_of(values: np.ndarray) -> View:
    """Of float32 or float16 values at their strides."""
    encoding = {2: "ggml.f16", 4: "ggml.f32"}[values.itemsize]
    base = values if values.base is None else values.base
    return View(encoding, base.reshape(-1).view(np.uint8), values.shape, values.strides)


@pytest.mark.parametrize("encoding", WEIGHTS)
def test_a_swapped_view_decodes_as_if_it_were_in_one_piece(encoding: str) -> None:
    data = data_of(encoding, (2, 3, 512))
    whole = contiguous(encoding, data, (2, 3, 512))
    swapped = View(encoding, data, (3, 2, 512), (whole.strides[1], whole.strides[0], whole.strides[2]))
    wanted = dequantize(encoding, data, (2, 3, 512)).transpose(1, 0, 2)
    np.testing.assert_array_equal(swapped.values(), wanted)


@pytest.mark.parametrize("encoding", WEIGHTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_batch_takes_another_matrix_of_weights_than_its_own(encoding: str, dtype: type) -> None:
    data, x = data_of(encoding, (2, 1, 5, 256)), floats(4, 3, 2, 256).astype(dtype)
    out = matmul(contiguous(encoding, data, (2, 1, 5, 256)), view_of(x))
    size = encoded_bytes(unit(encoding), (5, 256))
    for outer, inner in np.ndindex(4, 3):
        own = data[outer // 2 * size :][:size]
        wanted = one_matmul(encoding, x[outer, inner].astype(np.float32), own, (5, 256))
        if unit(encoding).block_elems == 1:
            np.testing.assert_allclose(out[outer, inner], wanted, rtol=1e-6)
        else:  # integers are summed exactly: to the last bit whatever runs beside it
            np.testing.assert_array_equal(out[outer, inner], wanted)


def test_a_product_ignores_the_strides_of_its_operands() -> None:
    data, x = data_of("ggml.q4_0", (5, 2, 64)), floats(3, 2, 80)
    whole = contiguous("ggml.q4_0", data, (5, 2, 64))
    weights = View("ggml.q4_0", data, (2, 5, 64), (whole.strides[1], whole.strides[0], whole.strides[2]))
    narrow = View("ggml.f32", x.reshape(-1).view(np.uint8), (2, 3, 64), (320, 640, 4))
    out = matmul(weights, narrow)
    packed = np.ascontiguousarray(data.reshape(5, 2, -1).transpose(1, 0, 2)).reshape(2, -1)
    for at in range(2):
        wanted = one_matmul("ggml.q4_0", np.ascontiguousarray(x[:, at, :64]), packed[at], (5, 64))
        np.testing.assert_array_equal(out[at], wanted)


@pytest.mark.parametrize("encoding", WEIGHTS)
def test_outer_products_of_a_batch_are_those_of_one_matrix_each(encoding: str) -> None:
    data, x = data_of(encoding, (2, 3, 256)), floats(4, 3, 5)
    out = out_prod(contiguous(encoding, data, (2, 3, 256)), view_of(x))
    size = encoded_bytes(unit(encoding), (3, 256))
    for at in range(4):
        wanted = one_out_prod(encoding, data[at // 2 * size :][:size], (3, 256), x[at])
        np.testing.assert_allclose(out[at], wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("encoding", WEIGHTS)
@pytest.mark.parametrize("shared", [True, False])
def test_a_row_meets_another_expert_than_its_id_names(encoding: str, shared: bool) -> None:
    data, x = data_of(encoding, (4, 5, 256)), floats(6, 1 if shared else 2, 256)
    ids = np.array([[3, 1], [0, 3], [1, 1], [2, 0], [3, 2], [0, 1]], np.int32)
    out = moe_matmul(encoding, x, data, (4, 5, 256), ids)
    size = encoded_bytes(unit(encoding), (5, 256))
    for token, slot in np.ndindex(6, 2):
        own = data[ids[token, slot] * size :][:size]
        row = x[token, 0 if shared else slot][None]
        np.testing.assert_allclose(
            out[token, slot], one_matmul(encoding, row, own, (5, 256))[0], rtol=1e-6, atol=1e-6
        )


def test_a_copy_between_shapes_changes_the_order_of_elements() -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    target = np.zeros(96, np.uint8)
    copy(view_of(values.transpose(2, 0, 1)), contiguous("ggml.f32", target, (6, 4)))
    np.testing.assert_array_equal(target.view(np.float32), values.transpose(2, 0, 1).reshape(-1))
    # A target whose first two dimensions are exchanged in memory.
    view = View("ggml.f32", target, (3, 2, 4), (16, 48, 4))
    copy(view_of(values), view)
    np.testing.assert_array_equal(
        target.view(np.float32).reshape(2, 3, 4).transpose(1, 0, 2).reshape(-1), values.reshape(-1)
    )


def test_a_copy_into_a_swapped_target_encodes_across_its_rows() -> None:
    values = floats(2, 3, 64)
    target = np.zeros(encoded_bytes(unit("ggml.q8_0"), (6, 64)), np.uint8)
    copy(view_of(values), View("ggml.q8_0", target, (3, 2, 64), (68, 204, 34)))
    rows = encode("ggml.q8_0", values.reshape(6, 64)).reshape(3, 2, 68)
    np.testing.assert_array_equal(target.reshape(2, 3, 68), rows.transpose(1, 0, 2))


def test_a_copy_to_integers_rounds_where_c_cuts_off() -> None:
    values, target = np.array([-149.99, -0.9, 0.9, 2.5], np.float32), np.zeros(16, np.uint8)
    copy(view_of(values), contiguous("ggml.i32", target, (4,)))
    np.testing.assert_array_equal(target.view(np.int32), [-149, 0, 0, 2])
    back = np.zeros(16, np.uint8)
    copy(contiguous("ggml.i32", target, (4,)), contiguous("ggml.f32", back, (4,)))
    np.testing.assert_array_equal(back.view(np.float32), [-149, 0, 0, 2])


def test_an_operand_without_elements_is_an_error() -> None:
    nothing = contiguous("ggml.f32", np.zeros(0, np.uint8), (0, 64))
    weights = contiguous("ggml.q4_0", data_of("ggml.q4_0", (5, 64)), (5, 64))
    assert matmul(weights, nothing).shape == (0, 5)
    copy(nothing, nothing)


BYTES, F32 = np.zeros(36, np.uint8), np.zeros(256, np.uint8)
Q4 = contiguous("ggml.q4_0", BYTES, (2, 32))
X = contiguous("ggml.f32", F32, (2, 32))
READ_ONLY = np.frombuffer(bytes(256), np.uint8)
EXPERTS = (2, 1, 32)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: View("ggml.q4_0", BYTES, (2, 32), (19, 18)), r"data: got 36 bytes, wanted 37"),
        (lambda: View("ggml.q4_0", BYTES, (2, 32), (18, 18), 1), r"data: got 36 bytes, wanted 37"),
        (lambda: View("ggml.q4_0", BYTES, (2, 32), (-18, 18)), "none below 0"),
        (lambda: View("ggml.q4_0", BYTES, (2, 33), (18, 18)), "multiple of the block of 32"),
        (lambda: View("ggml.q4_0", BYTES, (2, 32), (18,)), "a stride for each"),
        (lambda: View("ggml.q4_0", BYTES.view(np.int8), (2, 32), (18, 18)), "uint8"),
        (lambda: View("ggml.q4_0", BYTES[::2], (1, 32), (18, 18)), "contiguous bytes"),
        (lambda: View("ggml.q9_9", BYTES, (2, 32), (18, 18)), "unknown encoding"),
        (lambda: View("ggml.q4_0", BYTES, (1, 64), (36, 0)).rows(), "18 bytes apart"),
        (lambda: matmul(Q4, contiguous("ggml.q4_0", BYTES, (2, 32))), "x: got ggml.q4_0, wanted one of"),
        (lambda: matmul(Q4, contiguous("ggml.f32", F32, (4, 16))), r"wanted 32, as wide as the weights"),
        (lambda: matmul(Q4, contiguous("ggml.f32", F32, (1, 2, 32))), "as many sizes"),
        (
            lambda: matmul(
                contiguous("ggml.q4_0", BYTES, (2, 1, 32)), contiguous("ggml.f32", F32[:128], (1, 1, 32))
            ),
            r"multiples of \(2,\)",
        ),
        (lambda: out_prod(Q4, contiguous("ggml.f32", F32, (4, 16))), "2, as long as the weights"),
        (lambda: copy(X, contiguous("ggml.f32", F32, (1, 32))), "as many elements"),
        (lambda: copy(X, contiguous("ggml.f32", READ_ONLY, (2, 32))), "read-only"),
        (lambda: copy(X, contiguous("ggml.iq2_xs", np.zeros(74, np.uint8), (1, 256))), "as many elements"),
        (
            lambda: moe_matmul(
                "ggml.q4_0", X.values()[:, None], BYTES, EXPERTS, np.array([[0], [2]], np.int32)
            ),
            "ids: got 2, wanted 0 to 1",
        ),
        (
            lambda: moe_matmul("ggml.q4_0", X.values()[:, None], BYTES, EXPERTS, np.zeros((2, 1), np.int64)),
            "ids: got int64",
        ),
        (
            lambda: moe_matmul("ggml.q4_0", X.values(), BYTES, EXPERTS, np.zeros((2, 1), np.int32)),
            r"x: got shape \(2, 32\)",
        ),
        (
            lambda: moe_matmul(
                "ggml.q4_0", X.values()[:, None], BYTES[1:], EXPERTS, np.zeros((2, 1), np.int32)
            ),
            r"data: got shape \(35,\)",
        ),
    ],
)
def test_an_operand_that_does_not_fit_is_refused_by_name(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        call()
