"""Products at the edges of tiles, of views and of operands out of the ordinary, on Triton and CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases.ggml import on_device
from cases.ggml.adversarial import (
    DATA_VIEWS,
    INTERPRETED_ROWS,
    REFUSED_BY_CUDA,
    ROWS,
    ROWS_OF_W,
    ROWS_OF_X,
    SMALL_M,
    VALUES,
    VIEWS,
    WIDTHS,
    dtype_of,
    whole_width,
    width_of,
)
from cases.ggml.compute import VALUES as DRAWS
from cases.ggml.on_device import INTERPRETER, Place, Weights, WeightsOf
from harness.errors import UsageProblem
from harness.evidence.case import Case
from harness.plugin.verdict import CaseVerdict
from kernels.units import unit
from oracles.pool import Pool

place = pytest.fixture(on_device.place_of, name="place")


@pytest.fixture(scope="module")
def weights_of(oracle_pool: Pool) -> WeightsOf:
    return on_device.weights_maker(oracle_pool)


def number(case: Case, axis: str) -> int:
    """The number in the value of an axis: 33000 of `m33000`."""
    return int(case.axis(axis).removeprefix(axis))


def rows_of(case: Case) -> int:
    """Rows of weights where they are no axis."""
    return INTERPRETED_ROWS if case.backend == INTERPRETER else ROWS


def judged(case: Case, place: Place, weights: Weights, m: int, verdict: CaseVerdict) -> None:
    x = on_device.activations(place, m, weights.shape[1], dtype_of(m), case.seed)
    product = on_device.multiply(place, weights.encoding, x, weights.tensor(place), weights.shape)
    on_device.judge_product(case, place, product, weights, verdict)


@pytest.mark.cases(*ROWS_OF_X)
def test_a_tile_of_activations_is_wrong_at_its_edge(
    case: Case, place: Place, verdict: CaseVerdict, weights_of: WeightsOf
) -> None:
    weights = weights_of(case.encoding or "", rows_of(case), whole_width(unit(case.encoding or "")))
    judged(case, place, weights, number(case, "m"), verdict)


@pytest.mark.cases(*ROWS_OF_W)
def test_a_tile_of_weights_is_wrong_at_its_edge(
    case: Case, place: Place, verdict: CaseVerdict, weights_of: WeightsOf
) -> None:
    weights = weights_of(case.encoding or "", number(case, "n"), whole_width(unit(case.encoding or "")))
    judged(case, place, weights, number(case, "m"), verdict)


@pytest.mark.cases(*WIDTHS)
def test_a_tile_is_wrong_at_the_end_of_a_row(
    case: Case, place: Place, verdict: CaseVerdict, weights_of: WeightsOf
) -> None:
    k = width_of(unit(case.encoding or ""), number(case, "blocks"))
    judged(case, place, weights_of(case.encoding or "", rows_of(case), k), number(case, "m"), verdict)


@pytest.mark.cases(*VALUES)
def test_a_product_is_wrong_for_operands_that_are_out_of_the_ordinary(
    case: Case, place: Place, verdict: CaseVerdict, oracle_pool: Pool
) -> None:
    found, m, n = unit(case.encoding or ""), number(case, "m"), rows_of(case)
    k = whole_width(found)
    drawn, blocks = DRAWS[case.axis("values")][0](found, m, n, k, np.random.default_rng(case.seed))
    weights = Weights(found, blocks, (n, k), oracle_pool)
    x = on_device.on_place(place, drawn, SMALL_M[case.axis("m")])
    product = on_device.multiply(place, found.encoding, x, weights.tensor(place), weights.shape)
    on_device.judge_product(case, place, product, weights, verdict)


@pytest.mark.cases(*VIEWS)
def test_a_view_has_other_bits_than_a_contiguous_copy(
    case: Case, place: Place, verdict: CaseVerdict, weights_of: WeightsOf
) -> None:
    found, view = unit(case.encoding or ""), case.axis("view")
    weights = weights_of(found.encoding, rows_of(case), 2 * max(found.block_elems, 64))
    dtype = SMALL_M[case.axis("m")]
    x = on_device.activations(place, number(case, "m"), weights.shape[1], dtype, case.seed).contiguous()
    data = weights.tensor(place)
    if view == "one_row_repeated":
        x[1:] = x[0]
    seen, stored = x_seen(view, x), data_seen(view, data, found.block_bytes)
    assert seen.equal(x), "the view has other numbers"
    assert stored.equal(data), "the view has other bytes"
    product = on_device.multiply(place, found.encoding, x, data, weights.shape)
    if place.subject == "cuda" and view in REFUSED_BY_CUDA:
        with pytest.raises(UsageProblem, match=REFUSED_BY_CUDA[view]):
            on_device.multiply(place, found.encoding, seen, stored, weights.shape)
    else:
        of_view = on_device.multiply(place, found.encoding, seen, stored, weights.shape)
        assert of_view.values.equal(product.values), "the view has other bits than a contiguous copy"
    on_device.judge_product(case, place, product, weights, verdict)


def x_seen(view: str, x: Any) -> Any:
    """The numbers of x [m, k] in memory with NaNs between them, with other strides or at another offset."""
    import torch

    m, k = x.shape
    nan = float("nan")
    spaced = torch.full((2 * m, 3 * k), nan, dtype=x.dtype, device=x.device)
    if view == "every_second_row":
        spaced[::2, :k] = x
        return spaced[::2, :k]
    if view == "every_third_column":
        spaced[:m, ::3] = x
        return spaced[:m, ::3]
    if view == "transposed":
        return x.T.contiguous().T
    if view == "one_element_further":
        further = torch.full((m * k + 2,), nan, dtype=x.dtype, device=x.device)
        further[1:-1] = x.reshape(-1)
        return further[1:-1].view(m, k)
    return x[:1].expand(m, k) if view == "one_row_repeated" else x


def data_seen(view: str, data: Any, block_bytes: int) -> Any:
    """The bytes of data [n_bytes] behind poison: one byte, one block, or as many as there are bytes."""
    import torch

    if view not in DATA_VIEWS:
        return data
    start = {"one_byte_further": 1, "one_block_further": block_bytes}.get(view, data.numel())
    around = torch.full((start + data.numel() + block_bytes,), 0xFF, dtype=torch.uint8, device=data.device)
    around[start : start + data.numel()] = data
    return around[start : start + data.numel()]
