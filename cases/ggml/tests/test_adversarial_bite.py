"""Kernels that are wrong at an edge, planted: a value of the axis shows them, and the values beside it do not."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from cases.ggml import adversarial, far
from cases.ggml.adversarial import BLOCKS, EACH_SHAPE, REFUSED_BY_CUDA, VIEWED, M, N, whole_width, width_of
from cases.ggml.compute import gaussian
from cases.ggml.device import TRITON_WEIGHTS
from cases.ggml.gguf_plugin import LIMITS
from cases.upstream.inventory import load_inventory
from harness.comparison.bounds import dot_product_bound
from harness.plugin.judging import Opinion, judge
from harness.plugin.opinions import own_judge
from harness.verdicts import Verdict
from kernels.common.triton.plan import MATMUL_TILES, MATVEC_TILES
from kernels.provider import dequantize
from kernels.units import encoded_bytes, unit

Doubles = npt.NDArray[np.float64]
RIGHT = own_judge("right", [Path(__file__)])


def verdict_of(
    wrong: Callable[[Doubles, Doubles], Doubles], m: int, n: int, k: int, encoding: str
) -> Verdict:
    found = unit(encoding)
    x, blocks = gaussian(found, m, n, k, np.random.default_rng(3))
    a, w = x.astype(np.float64), dequantize(encoding, blocks.reshape(-1), (n, k)).astype(np.float64)
    opinion = Opinion(RIGHT, (a @ w.T).astype(np.float32))
    bound = dot_product_bound(k, np.abs(a) @ np.abs(w).T, 2.0**-24)
    return judge(wrong(a, w).astype(np.float32), [opinion], bound).verdict


def tiles_rounded_down(rows: int, axis: int) -> Callable[[Doubles, Doubles], Doubles]:
    """What lies beyond the last whole tile of a result is never written."""

    def wrong(a: Doubles, w: Doubles) -> Doubles:
        product = a @ w.T
        whole = product.shape[axis] // rows * rows
        np.moveaxis(product, axis, 0)[whole:] = np.nan
        return product

    return wrong


def width_rounded_down(groups: int) -> Callable[[Doubles, Doubles], Doubles]:
    """What lies beyond the last whole tile of the width is not added."""

    def wrong(a: Doubles, w: Doubles) -> Doubles:
        whole = a.shape[1] // groups * groups
        return a[:, :whole] @ w[:, :whole].T

    return wrong


ROWS_OF_X = sorted({tile.rows_x for tile in (*MATVEC_TILES, *MATMUL_TILES)} - {1})
ROWS_OF_W = sorted({tile.rows_w for tile in (*MATVEC_TILES, *MATMUL_TILES)})


@pytest.mark.parametrize("rows", ROWS_OF_X)
def test_a_tile_of_activations_is_rounded_down_unseen(rows: int) -> None:
    small = [m for m in M if m < 1000]
    seen = {
        m for m in small if verdict_of(tiles_rounded_down(rows, 0), m, 5, 64, "ggml.q4_0") is not Verdict.PASS
    }
    assert {rows - 1, rows + 1} & set(small) <= seen
    assert seen == {m for m in small if m % rows}
    assert {rows, rows + 1} <= set(small), "the axis has no edge of this tile"


@pytest.mark.parametrize("rows", ROWS_OF_W)
def test_a_tile_of_weights_is_rounded_down_unseen(rows: int) -> None:
    seen = {
        n for n in N if verdict_of(tiles_rounded_down(rows, 1), 2, n, 64, "ggml.q4_0") is not Verdict.PASS
    }
    assert seen == {n for n in N if n % rows}
    assert {rows - 1, rows, rows + 1} <= set(N), "the axis has no edge of this tile"


@pytest.mark.parametrize("encoding", ["ggml.f16", "ggml.q4_0", "ggml.q4_k"])
def test_the_end_of_a_row_is_left_out_unseen(encoding: str) -> None:
    found = unit(encoding)
    tile = {1: 512, 32: 512, 256: 4096}[found.block_elems]
    seen = {
        blocks
        for blocks in BLOCKS
        if verdict_of(width_rounded_down(tile), 2, 5, width_of(found, blocks), encoding) is not Verdict.PASS
    }
    assert {17, 19} <= seen
    assert 16 not in seen or found.block_elems == 1


def test_offsets_of_32_bits_are_seen() -> None:
    """A row is read where a signed offset of 32 bits would find it: rows beyond 2^31 alone are wrong."""
    for encoding in far.FAR:
        found = unit(encoding)
        row_bytes = encoded_bytes(found, (far.WIDE,))
        n = far.rows_beyond(found, far.WIDE)
        chosen = np.array(far.places(n, row_bytes))
        offsets = chosen * row_bytes
        with np.errstate(over="ignore"):
            wrapped = offsets.astype(np.int32).astype(np.int64)
        assert (wrapped != offsets).sum() >= far.NEAR
        assert (wrapped == offsets).sum() >= far.NEAR
        assert ((wrapped != offsets) == (offsets >= far.LIMIT)).all()


def test_a_way_to_read_blocks_is_tried_for_no_encoding() -> None:
    def shape(name: str) -> tuple[bool, bool, int]:
        found = unit(name)
        return found.block_elems > 1, bool(found.tables), found.block_bytes % 2

    assert {shape(name) for name in EACH_SHAPE} >= {shape(name) for name in TRITON_WEIGHTS}
    assert set(VIEWED) <= set(EACH_SHAPE)
    assert {whole_width(unit(name)) % unit(name).block_elems for name in TRITON_WEIGHTS} == {0}


def test_528_544_and_608_are_not_among_the_widths() -> None:
    assert {528, 561, 627} <= {width_of(unit("ggml.f16"), blocks) for blocks in BLOCKS}
    assert {544, 608} <= {width_of(unit("ggml.q4_0"), blocks) for blocks in BLOCKS}


def test_a_view_that_cuda_refuses_is_no_view() -> None:
    assert set(REFUSED_BY_CUDA) < {*adversarial.X_VIEWS, *adversarial.DATA_VIEWS}


def test_a_limit_of_the_plugin_is_not_that_of_its_inventory() -> None:
    words = {test.name: test.asserts or "" for test in load_inventory("vllm-gguf-plugin").files[0].tests}
    assert "atol=1e-2 rtol=4e-2" in words["test_dequantize"]
    assert LIMITS["test_dequantize"]["float16"] == (1e-2, 4e-2)
    assert "atol=1 rtol=1e-1" in words["test_mmvq"]
    assert LIMITS["test_mmvq"]["float16"] == (1.0, 1e-1)
    assert "atol 1/1.5/1.2 and rtol 1e-1/1e4/2e1" in words["test_mmq"]
    assert list(LIMITS["test_mmq"].values()) == [(1.0, 1e-1), (1.5, 1e4), (1.2, 2e1)]


if importlib.util.find_spec("torch") is not None:

    @pytest.mark.parametrize("view", adversarial.X_VIEWS)
    def test_a_kernel_that_ignores_strides_passes_a_view(view: str) -> None:
        import torch

        from cases.ggml.test_adversarial_cases import x_seen

        x = torch.arange(3 * 64, dtype=torch.float32).view(3, 64)
        if view == "one_row_repeated":
            x[1:] = x[0]
        seen = x_seen(view, x)
        start = 0 if view == "one_element_further" else seen.storage_offset()
        taken = torch.as_strided(seen, (3, 64), (64, 1), start) if view != "one_row_repeated" else None
        assert seen.equal(x)
        if taken is None:
            assert seen.stride(0) == 0
        else:
            assert not torch.equal(taken, x), "read as contiguous from its start, it is right"
