"""The Triton matmul loops, under the interpreter: every edge of a tile, views, poison, splits, within a derived bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from cases.generators import ordinary_blocks, value_fields
from harness.comparison.bounds import Bound, dot_product_bound
from harness.errors import UsageProblem
from kernels import triton_provider
from kernels.common.triton.plan import MATVEC_MAX_M, Plan, decoder
from kernels.provider import dequantize
from kernels.units import Unit, load_units, unit

UNITS = tuple(load_units().values())
F32 = 2.0**-24
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
GUARD = 12345.0


def weights(found: Unit, n: int, k: int, seed: int = 5) -> torch.Tensor:
    """Encoded weights of ordinary size, uint8, between bytes that decode to infinities and NaNs."""
    rng = np.random.default_rng(seed)
    blocks = ordinary_blocks(found, n * (k // found.block_elems), rng)
    for field in value_fields(found):
        values = rng.standard_normal(len(blocks)).astype(np.float32)
        stored = {
            "f32": values,
            "f16": values.astype(np.float16),
            "bf16": (values.view(np.uint32) >> 16).astype(np.uint16),
        }
        blocks[:] = stored[field.type][:, None].view(np.uint8)
    poison = np.full(4 * found.block_bytes, 0xFF, np.uint8)
    everything = np.concatenate([poison, blocks.reshape(-1), poison])
    return torch.from_numpy(everything)[poison.size : -poison.size]


def activations(m: int, k: int, dtype: str, seed: int = 6) -> torch.Tensor:
    """x [m, k] as a view whose rows lie between NaNs."""
    around = torch.full((m + 2, k + 16), float("nan"), dtype=DTYPES[dtype])
    values = np.random.default_rng(seed).standard_normal((m, k)).astype(np.float32)
    around[1:-1, 8:-8] = torch.from_numpy(values).to(DTYPES[dtype])
    return around[1:-1, 8:-8]


def judge(found: Unit, x: torch.Tensor, data: torch.Tensor, n: int, got: torch.Tensor, plan: Plan) -> None:
    """`not (error <= bound)` on the worst element: the sum's own bound, and what the loop does to the weights."""
    k = x.shape[1]
    a = x.double().numpy()
    w = dequantize(found.encoding, data.numpy(), (n, k)).astype(np.float64)
    magnitude = np.abs(a) @ np.abs(w).T
    summed = dot_product_bound(k, (1 + plan.weight_roundoff) * magnitude, F32)
    bound = Bound(summed.limit + plan.weight_roundoff * magnitude, summed.derivation)
    error = np.abs(got.double().numpy() - a @ w.T)
    assert not np.any(~(error <= bound.limit)), f"{(error / bound.limit).max():.3g} times {bound.derivation}"


def multiply(found: Unit, m: int, n: int, blocks: int, dtype: str, splits: int | None = None) -> Plan:
    """Run one case into a guarded output and judge it; the plan that was followed."""
    k = blocks * found.block_elems
    x, data = activations(m, k, dtype), weights(found, n, k)
    plan = triton_provider.plan_for(found.encoding, x, (n, k), splits)
    guarded = torch.full((m + 2, n + 2), GUARD)
    out = guarded[1:-1, 1:-1]
    assert triton_provider.matmul(found.encoding, x, data, (n, k), out=out, plan=plan) is out
    judge(found, x, data, n, out, plan)
    guarded[1:-1, 1:-1] = GUARD
    assert (guarded == GUARD).all()
    return plan


def shapes() -> Iterator[tuple[Unit, int, int, int, str]]:
    """For every encoding each M once, with N, K and dtype taking turns, so that all pairs of values occur."""
    ms, ns, ks, dtypes = (1, 3, 4, 17), (1, 7, 33), (1, 3, 9), ("float16", "bfloat16", "float32")
    for (place, found), (turn, m) in itertools.product(enumerate(UNITS), enumerate(ms)):
        step = place + turn
        dtype = dtypes[step % 2] if m > MATVEC_MAX_M else dtypes[(step + place // 3) % 3]
        # The widest N with the longest K takes the interpreter seconds and shows nothing more.
        n, blocks = ns[step % 3], ks[(step + turn) % 3]
        yield found, m, min(n, 7) if blocks == 9 else n, blocks * (1 if found.block_elems > 1 else 61), dtype


@pytest.mark.parametrize(
    ("found", "m", "n", "blocks", "dtype"),
    [pytest.param(*case, id=f"{case[0].encoding}-{'-'.join(map(str, case[1:]))}") for case in shapes()],
)
def test_no_edge_of_a_tile_is_wrong(found: Unit, m: int, n: int, blocks: int, dtype: str) -> None:
    plan = multiply(found, m, n, blocks, dtype)
    assert plan.loop == ("matmul" if m > MATVEC_MAX_M and dtype != "float32" else "matvec")


ONE_OF_EACH_SHAPE = ("ggml.f16", "ggml.q4_0", "ggml.q8_0", "ggml.nvfp4")
"""A single weight, four and eight groups a block; blocks of 256 are in the test above."""


@pytest.mark.parametrize("encoding", ONE_OF_EACH_SHAPE)
@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 33, 65])
def test_no_number_of_activation_rows_is_wrong(encoding: str, m: int) -> None:
    multiply(unit(encoding), m, 9, 5, "bfloat16" if m % 2 else "float16")


@pytest.mark.parametrize("encoding", ONE_OF_EACH_SHAPE)
@pytest.mark.parametrize("n", [1, 3, 4, 5, 63, 64, 65])
def test_no_number_of_weight_rows_is_wrong(encoding: str, n: int) -> None:
    multiply(unit(encoding), 2, n, 3, "float16")
    multiply(unit(encoding), 9, n, 3, "bfloat16")


@pytest.mark.parametrize("splits", [1, 2, 3, 5])
def test_no_split_along_k_is_lost_or_added_twice(splits: int) -> None:
    found = unit("ggml.q4_0")
    tile_blocks = 16 // decoder(found).GROUPS
    plan = multiply(found, 9, 7, 4 * tile_blocks + 3, "bfloat16", splits)
    # Five tiles of blocks: in three splits of two, two and one.
    assert plan.splits == {1: 1, 2: 2, 3: 3, 5: 5}[splits]


def test_a_product_has_the_same_bits_every_time() -> None:
    found = unit("ggml.q4_0")
    x, data = activations(9, 640, "bfloat16"), weights(found, 7, 640)
    plan = triton_provider.plan_for(found.encoding, x, (7, 640), 3)
    first, second = (triton_provider.matmul(found.encoding, x, data, (7, 640), plan=plan) for _ in range(2))
    assert torch.equal(first, second)


def views(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same numbers with other strides and offsets."""
    m, k = x.shape
    spaced = torch.full((2 * m, 3 * k), float("nan"), dtype=x.dtype)
    spaced[::2, ::3] = x
    shifted = torch.full((m * k + 1,), float("nan"), dtype=x.dtype)
    shifted[1:] = x.reshape(-1)
    return {
        "every second row, every third column": spaced[::2, ::3],
        "transposed": x.T.contiguous().T,
        "one element further": shifted[1:].view(m, k),
    }


@pytest.mark.parametrize("encoding", ["ggml.f16", "ggml.q4_0", "ggml.q6_k"])
@pytest.mark.parametrize("m", [2, 9])
def test_a_view_gives_the_bits_of_a_contiguous_copy(encoding: str, m: int) -> None:
    found = unit(encoding)
    k = 2 * max(found.block_elems, 32)
    x, data = activations(m, k, "float16").contiguous(), weights(found, 5, k)
    expected = triton_provider.matmul(encoding, x, data, (5, k))
    for name, view in views(x).items():
        assert not view.is_contiguous() or view.storage_offset(), name
        assert torch.equal(triton_provider.matmul(encoding, view, data, (5, k)), expected), name
    repeated = x[:1].expand(m, k)
    assert torch.equal(triton_provider.matmul(encoding, repeated, data, (5, k)), expected[:1].expand(m, 5))


@pytest.mark.parametrize("m", [2, 9])
@pytest.mark.parametrize("splits", [1, 2])
def test_a_transposed_output_is_filled_in_place(m: int, splits: int) -> None:
    found = unit("ggml.q4_0")
    x, data = activations(m, 256, "bfloat16"), weights(found, 5, 256)
    plan = triton_provider.plan_for(found.encoding, x, (5, 256), splits)
    out = torch.full((5, m), float("nan")).T
    triton_provider.matmul(found.encoding, x, data, (5, 256), out=out, plan=plan)
    assert torch.equal(out, triton_provider.matmul(found.encoding, x, data, (5, 256), plan=plan))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("m", [2, 9])
def test_a_narrow_output_is_the_sum_rounded_once(m: int, dtype: torch.dtype) -> None:
    found = unit("ggml.q4_0")
    x, data = activations(m, 64, "bfloat16"), weights(found, 5, 64)
    wide = triton_provider.matmul(found.encoding, x, data, (5, 64))
    assert torch.equal(triton_provider.matmul(found.encoding, x, data, (5, 64), dtype), wide.to(dtype))


@pytest.mark.parametrize("m", [1, 9])
def test_a_nan_in_one_row_of_weights_stays_in_its_column(m: int) -> None:
    found = unit("ggml.q4_0")
    x, data = activations(m, 64, "float16"), weights(found, 5, 64).clone()
    clean = triton_provider.matmul(found.encoding, x, data, (5, 64))
    data[2 * 2 * 18 : 2 * 2 * 18 + 2] = torch.tensor([0x00, 0x7E], dtype=torch.uint8)
    got = triton_provider.matmul(found.encoding, x, data, (5, 64))
    assert got[:, 2].isnan().all()
    others = [0, 1, 3, 4]
    assert torch.equal(got[:, others], clean[:, others])


@pytest.mark.parametrize("m", [1, 9])
def test_weights_beyond_half_precision_do_not_overflow_under_half_precision_activations(m: int) -> None:
    """Q4_0 with d = 65504 and codes of 15: each weight is 458528, and the sum of 32 of them far from an overflow."""
    block = np.full(18, 0xFF, np.uint8)
    block[:2] = np.array([65504.0], np.float16).view(np.uint8)
    x = torch.ones((m, 32), dtype=torch.float16)
    got = triton_provider.matmul("ggml.q4_0", x, torch.from_numpy(block), (1, 32))
    np.testing.assert_allclose(got.numpy(), 32 * 7 * 65504.0, rtol=2.0**-9)


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_a_constant_block_of_large_activations_does_not_overflow(dtype: str) -> None:
    found = unit("ggml.q4_k")
    data, k = weights(found, 3, 256), 256
    x = torch.full((9, k), 2096.0, dtype=DTYPES[dtype])
    plan = triton_provider.plan_for(found.encoding, x, (3, k))
    judge(found, x, data, 3, triton_provider.matmul(found.encoding, x, data, (3, k)), plan)


def test_activations_beyond_two_to_the_31_elements_are_found() -> None:
    """Only the pages that are touched become memory."""
    found, far = unit("ggml.q4_0"), (1 << 31) + 8
    x = torch.empty(far + 64, dtype=torch.float16).as_strided((2, 64), (far, 1))
    x[:] = activations(2, 64, "float16")
    data = weights(found, 5, 64)
    expected = triton_provider.matmul(found.encoding, x.clone(), data, (5, 64))
    assert torch.equal(triton_provider.matmul(found.encoding, x, data, (5, 64)), expected)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 32), (2, 0, 32), (2, 3, 0)])
def test_an_empty_product_is_zero_and_no_error(m: int, n: int, k: int) -> None:
    data = torch.zeros(n * k // 32 * 18, dtype=torch.uint8)
    got = triton_provider.matmul("ggml.q4_0", torch.ones(m, k), data, (n, k))
    assert got.shape == (m, n)
    assert not got.any()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"x": torch.ones(2, 32, dtype=torch.float64)}, r"x: got float64 \[2, 32\], wanted a float16"),
        ({"x": torch.ones(1, 2, 32)}, r"x: got float32 \[1, 2, 32\]"),
        ({"x": torch.ones(2, 64)}, "x: got 64 columns, wanted 32, as the weights have"),
        ({"x": torch.ones(1, 32).expand(600000, 32)}, "x: got 600000 rows, wanted at most 524280"),
        ({"shape": (32,)}, r"shape: got \(32,\), wanted two dimensions"),
        ({"out": torch.empty(2, 2)}, r"out: got float32 \[2, 2\], wanted a float32, float16 or bfloat16"),
        ({"out": torch.empty(1, 1).expand(2, 1)}, r"out: got strides \(0, 1\), wanted elements with memory"),
    ],
)
def test_what_cannot_be_multiplied_is_refused_by_name(changed: dict[str, object], said: str) -> None:
    arguments = {
        "x": torch.ones(2, 32),
        "data": torch.zeros(18, dtype=torch.uint8),
        "shape": (1, 32),
    } | changed
    with pytest.raises(UsageProblem, match=rf"matmul ggml\.q4_0: {said}"):
        triton_provider.matmul("ggml.q4_0", **arguments)
