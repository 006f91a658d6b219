"""Offsets of 2^31 bytes and more on the cpu: in a sparse file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from cases.generators import ordinary_blocks
from cases.ggml.far import LIMIT, ROWS_CPU, VALUES_CPU, WIDE, places, rows_beyond
from cases.ggml.judges import decoders, kernel_of
from harness.evidence.case import Case
from harness.plugin.opinions import decoded_by
from harness.plugin.verdict import CaseVerdict
from kernels import cpu_ops
from kernels.provider import dequantize
from kernels.units import encoded_bytes, unit
from oracles.pool import Pool

Sparse = tuple[npt.NDArray[np.uint8], list[int]]


@pytest.fixture
def sparse(tmp_path: Path, case: Case) -> Sparse:
    """A file of more than 2^31 bytes that is written where it is judged alone, and the numbers of these rows."""
    found = unit(case.encoding or "")
    row_bytes, n = encoded_bytes(found, (WIDE,)), rows_beyond(found, WIDE)
    file = tmp_path / "weights"
    with file.open("wb") as stream:
        stream.truncate(n * row_bytes)
    data = np.memmap(file, np.uint8, "r+")
    chosen = places(n, row_bytes)
    blocks = ordinary_blocks(found, len(chosen) * WIDE // found.block_elems, np.random.default_rng(case.seed))
    data.reshape(n, row_bytes)[chosen] = blocks.reshape(len(chosen), row_bytes)
    assert data.nbytes > LIMIT
    return data, chosen


@pytest.mark.cases(VALUES_CPU)
def test_a_value_beyond_two_to_the_31_is_another(
    case: Case, verdict: CaseVerdict, oracle_pool: Pool, sparse: Sparse
) -> None:
    found = unit(case.encoding or "")
    data, chosen = sparse
    row_bytes = encoded_bytes(found, (WIDE,))
    beyond = [row for row in chosen if row * row_bytes >= LIMIT]
    part = data[beyond[0] * row_bytes :]
    picked = [row - beyond[0] for row in beyond]
    values = dequantize(found.encoding, part, (part.size // row_bytes, WIDE))[picked]
    rows = part.reshape(-1, row_bytes)[picked].reshape(-1)
    opinions = decoded_by(decoders(oracle_pool, found.encoding), found.encoding, rows, values.shape)
    verdict(values, opinions, kernel=kernel_of(found, "decode"), block_elems=found.block_elems)


@pytest.mark.cases(ROWS_CPU)
def test_a_row_beyond_two_to_the_31_is_another(
    case: Case, verdict: CaseVerdict, oracle_pool: Pool, sparse: Sparse
) -> None:
    found = unit(case.encoding or "")
    data, chosen = sparse
    backwards = np.array(chosen[::-1])
    n = rows_beyond(found, WIDE)
    values = cpu_ops.get_rows(found.encoding, data, (n, WIDE), backwards)
    rows = data.reshape(n, -1)[backwards].reshape(-1)
    opinions = decoded_by(decoders(oracle_pool, found.encoding), found.encoding, rows, values.shape)
    verdict(values, opinions, kernel="kernels/cpu_ops.py:get_rows", block_elems=found.block_elems)
