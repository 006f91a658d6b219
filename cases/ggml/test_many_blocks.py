"""Ten million random blocks of every encoding against the engines, in the nightly run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from cases.generators import Blocks
from cases.ggml.decode import DECODE
from cases.ggml.judges import decoders
from cases.ggml.many_blocks import BLOCKS, DRAWS, Ask, passed, seed_of, sweep
from harness.plugin.judging import Opinion
from harness.plugin.opinions import decoded_by, own_judge
from harness.verdicts import Verdict
from kernels.provider import dequantize
from kernels.units import Unit, unit
from oracles.pool import Pool

ENCODING = "ggml.q4_0"


@pytest.fixture(scope="module")
def live_pool() -> Iterator[Pool]:
    """Oracles without a memo: so many answers would drive out everything else."""
    with Pool() as pool:
        yield pool


def ours(found: Unit, wrong_block: int | None = None) -> object:
    """Our decode; with a block of the last chunk whose last weight is wrong."""

    def decode(data: Blocks, values: npt.NDArray[np.float32]) -> None:
        dequantize(found.encoding, data.reshape(-1), values.shape, out=values)
        if wrong_block is not None and len(data) < 1000:
            values[wrong_block, -1] += 1

    return decode


def engines(pool: Pool, found: Unit) -> Ask:
    def ask(data: Blocks) -> list[Opinion]:
        shape = (len(data), found.block_elems)
        return decoded_by(decoders(pool, found.encoding), found.encoding, data.reshape(-1), shape)

    return ask


@pytest.mark.nightly(reason=f"{BLOCKS:,} blocks of an encoding take from ten seconds to a minute")
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("encoding", DECODE.encodings)
def test_one_block_in_a_million_is_decoded_in_another_way(encoding: str, draw: str, live_pool: Pool) -> None:
    found = unit(encoding)
    swept = sweep(found, draw, BLOCKS // len(DRAWS), ours(found), engines(live_pool, found))
    assert swept.blocks == BLOCKS // 2
    assert passed(swept), str(swept)


def itself(data: Blocks) -> list[Opinion]:
    """An opinion that is our own decode: what is swept here is the sweep."""
    found = unit(ENCODING)
    values = dequantize(ENCODING, data.reshape(-1), (len(data), found.block_elems))
    return [Opinion(own_judge("itself", []), values)]


@pytest.mark.parametrize("block", [0, 42])
def test_a_fault_in_the_last_chunk_is_lost(block: int) -> None:
    found = unit(ENCODING)
    swept = sweep(found, "ordinary_scales", 2043, ours(found, block), itself, chunk=1000)
    assert (swept.judged.verdict, swept.chunk) == (Verdict.FAIL_VALUE, 2)
    assert swept.seed == seed_of(ENCODING, "ordinary_scales", 2)
    assert f"row {block}" in str(swept)


def test_a_fault_is_made_good_by_the_chunks_after_it() -> None:
    found = unit(ENCODING)

    def wrong_at_first(data: Blocks, values: npt.NDArray[np.float32]) -> None:
        dequantize(ENCODING, data.reshape(-1), values.shape, out=values)
        values[0, 0] += data.tobytes() == first.tobytes()

    first = DRAWS["random_bytes"](found, 10, np.random.default_rng(seed_of(ENCODING, "random_bytes", 0)))
    swept = sweep(found, "ordinary_scales", 30, wrong_at_first, itself, chunk=10)
    assert passed(swept)
    swept = sweep(found, "random_bytes", 30, wrong_at_first, itself, chunk=10)
    assert (swept.judged.verdict, swept.chunk) == (Verdict.FAIL_VALUE, 0)


def test_what_the_kernel_leaves_unwritten_is_the_last_chunks_result() -> None:
    found = unit(ENCODING)

    def only_once(data: Blocks, values: npt.NDArray[np.float32]) -> None:
        if data.tobytes() == first.tobytes():
            dequantize(ENCODING, data.reshape(-1), values.shape, out=values)

    first = DRAWS["ordinary_scales"](
        found, 10, np.random.default_rng(seed_of(ENCODING, "ordinary_scales", 0))
    )
    swept = sweep(found, "ordinary_scales", 20, only_once, itself, chunk=10)
    assert (swept.judged.verdict, swept.chunk) == (Verdict.FAIL_NONFINITE, 1)


def test_a_write_past_the_end_of_a_chunk_is_seen() -> None:
    found = unit(ENCODING)

    def past_the_end(data: Blocks, values: npt.NDArray[np.float32]) -> None:
        dequantize(ENCODING, data.reshape(-1), values.shape, out=values)
        behind = np.lib.stride_tricks.as_strided(values.reshape(-1), (values.size + 1,), (4,))
        behind[-1] = 0

    with pytest.raises(AssertionError, match="past the end"):
        sweep(found, "random_bytes", 20, past_the_end, itself, chunk=10)


def test_nothing_is_swept_and_passes() -> None:
    found = unit(ENCODING)
    with pytest.raises(ValueError, match="nothing was judged"):
        sweep(found, "random_bytes", 0, ours(found), itself)


def test_two_chunks_are_drawn_alike() -> None:
    seeds = {seed_of(e, d, c) for e in DECODE.encodings for d in DRAWS for c in range(200)}
    assert len(seeds) > 0.999 * len(DECODE.encodings) * len(DRAWS) * 200
