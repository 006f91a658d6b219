"""Offsets of 2^31 and more on a device: large buffers, and rows far apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cases.ggml import on_device
from cases.ggml.adversarial import dtype_of
from cases.ggml.far import CUDA, LIMIT, NARROW, ROWS, TRITON, VALUES, WIDE, M, places, rows_beyond
from cases.ggml.judges import decoders
from cases.ggml.on_device import Place, Weights
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import decoded_by
from harness.plugin.verdict import CaseVerdict
from kernels.units import Unit, encoded_bytes, unit
from oracles.pool import Pool


@pytest.fixture(name="place")
def place_with_room(case: Case, request: pytest.FixtureRequest, skip_case: Any) -> Iterator[Place]:
    """The place of the case; a device gets its memory back, which other processes may wait for."""
    found = on_device.place_of(case, request, skip_case)
    yield found
    if found.tensors == "cuda":
        import torch

        torch.cuda.empty_cache()


def opinions_of(pool: Pool, found: Unit, rows: npt.NDArray[np.uint8], k: int) -> list[Opinion]:
    """What each oracle decodes rows uint8 [n, row_bytes] to."""
    shape = (len(rows), k)
    return decoded_by(decoders(pool, found.encoding), found.encoding, rows.reshape(-1), shape)


def far_data(found: Unit, n: int, k: int, place: Place, seed: int) -> Any:
    """Weights [n, k] on a device, uint8 [n_bytes]."""
    from kernels.common.triton.device_data import random_weights

    return random_weights(found, (n, k), place.tensors, seed)


def rows_on_host(found: Unit, data: Any, rows: list[int], k: int) -> npt.NDArray[np.uint8]:
    """Rows of the data, uint8 [len(rows), row_bytes]: each is read at its own place, by torch."""
    row_bytes = encoded_bytes(found, (k,))
    parts = [data[row * row_bytes : (row + 1) * row_bytes].cpu().numpy() for row in rows]
    return np.stack(parts)


@pytest.mark.cases(VALUES)
def test_a_value_beyond_two_to_the_31_is_another(
    case: Case, verdict: CaseVerdict, place: Place, oracle_pool: Pool
) -> None:
    found = unit(case.encoding or "")
    n = LIMIT // WIDE + 16
    chosen = places(n, WIDE)
    data = far_data(found, n, WIDE, place, case.seed)
    if place.subject == "cuda":
        from kernels.cuda_provider import dequantize as decode
    else:
        from kernels.triton_provider import dequantize as decode
    values = decode(found.encoding, data, (n, WIDE))[chosen].cpu().numpy()
    verdict(
        values,
        opinions_of(oracle_pool, found, rows_on_host(found, data, chosen, WIDE), WIDE),
        kernel=on_device.kernel_on(
            place, found, "cuda.dequantize" if place.subject == "cuda" else "triton.expand"
        ),
        device=place.device,
        block_elems=found.block_elems,
        name=place.subject,
    )


@pytest.mark.cases(ROWS)
def test_a_row_beyond_two_to_the_31_is_another(
    case: Case, verdict: CaseVerdict, place: Place, oracle_pool: Pool
) -> None:
    import torch

    from kernels import triton_provider

    found = unit(case.encoding or "")
    n = rows_beyond(found, WIDE)
    chosen = places(n, encoded_bytes(found, (WIDE,)))[::-1]
    data = far_data(found, n, WIDE, place, case.seed)
    values = triton_provider.get_rows(
        found.encoding, torch.tensor(chosen, device=data.device), data, (n, WIDE)
    )
    verdict(
        values.cpu().numpy(),
        opinions_of(oracle_pool, found, rows_on_host(found, data, chosen, WIDE), WIDE),
        kernel=on_device.kernel_on(place, found, "triton.expand"),
        device=place.device,
        block_elems=found.block_elems,
        name=place.subject,
    )


@pytest.mark.cases(TRITON, CUDA)
def test_a_product_beyond_two_to_the_31_is_another(
    case: Case, verdict: CaseVerdict, place: Place, oracle_pool: Pool
) -> None:
    found, m, far = unit(case.encoding or ""), M[case.axis("m")], case.axis("far")
    n, k = {
        "weights": (rows_beyond(found, WIDE), WIDE),
        "activations": (33, NARROW),
        "results": (LIMIT // m + 16, NARROW),
    }[far]
    data = far_data(found, n, k, place, case.seed)
    x = on_device.activations(place, m, k, dtype_of(m), case.seed)
    product = on_device.multiply(
        place, found.encoding, far_apart(x) if far == "activations" else x, data, (n, k)
    )
    columns = places(n, encoded_bytes(found, (k,)))
    rows = places(m, n)
    judged = dataclasses.replace(
        product, values=product.values[rows][:, columns], operand=product.operand[rows]
    )
    blocks = rows_on_host(found, data, columns, k).reshape(-1, found.block_bytes)
    weights = Weights(found, blocks, (len(columns), k), oracle_pool)
    on_device.judge_product(case, place, judged, weights, verdict)


def far_apart(x: Any) -> Any:
    """The rows of x [m, k] in memory of their own, the last one 2^31 elements behind the first: what is between is no one's."""
    import torch

    m, k = x.shape
    far = -(-(LIMIT + k) // (m - 1))
    memory = torch.empty((m - 1) * far + k, dtype=x.dtype, device=x.device)
    spread = memory.as_strided((m, k), (far, 1))
    spread.copy_(x)
    return spread
