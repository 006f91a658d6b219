"""Our cpu provider: what it refuses, and what it must not be confused by."""

from __future__ import annotations

import mmap
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UsageProblem
from kernels.common.numpy.blocks import CHUNK_WEIGHTS
from kernels.provider import dequantize
from kernels.units import Unit, encoded_bytes, load_units, unit

every_unit = pytest.mark.parametrize("found", load_units().values(), ids=lambda found: found.encoding)
Q4_0 = unit("ggml.q4_0")


def random_data(found: Unit, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, encoded_bytes(found, shape), dtype=np.uint8)


def bits(values: np.ndarray) -> np.ndarray:
    """The bits, with every NaN made the same."""
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (lambda data: data.view(np.int8), "data: got int8, wanted uint8"),
        (lambda data: data.astype(np.float32), "data: got float32, wanted uint8"),
        (lambda data: data[:-1], r"data: got 35 bytes, wanted 36 for shape \(2, 32\)"),
        (lambda data: np.append(data, np.uint8(0)), "data: got 37 bytes, wanted 36"),
        (lambda data: data.reshape(2, 18), "data: got 2 dimensions, wanted 1"),
        (lambda data: np.repeat(data, 2)[::2], "data: got stride 2, wanted contiguous bytes"),
        (lambda data: data[::-1], "data: got stride -1, wanted contiguous bytes"),
        (bytes, "data: got bytes, wanted a numpy array"),
    ],
)
def test_data_that_is_not_what_it_should_be_is_refused_by_name(data: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(UsageProblem, match=f"dequantize ggml.q4_0: {said}"):
        dequantize("ggml.q4_0", data(random_data(Q4_0, (2, 32))), (2, 32))


@pytest.mark.parametrize(
    "out",
    [
        np.empty((2, 32), np.float64),
        np.empty((2, 32), np.dtype(">f4")),
        np.empty((32, 2), np.float32),
        np.empty(64, np.float32),
        np.empty((32, 2), np.float32).T,
        np.empty((2, 64), np.float32)[:, ::2],
        np.frombuffer(bytes(256), np.float32).reshape(2, 32),
        np.empty(257, np.uint8)[1:].view(np.float32).reshape(2, 32),
        [[0.0] * 32] * 2,
    ],
)
def test_an_out_that_cannot_take_the_values_is_refused_by_name(out: Any) -> None:
    with pytest.raises(UsageProblem, match=r"dequantize ggml.q4_0: out: got .*, wanted "):
        dequantize("ggml.q4_0", random_data(Q4_0, (2, 32)), (2, 32), out)


def test_an_out_that_overlaps_the_data_is_refused() -> None:
    memory = np.zeros(256 + 36, np.uint8)
    out = memory[:256].view(np.float32).reshape(2, 32)
    with pytest.raises(UsageProblem, match="memory of its own"):
        dequantize("ggml.q4_0", memory[200:236], (2, 32), out)


@pytest.mark.parametrize("shape", [(), (2, 31), (-2, 32)])
def test_a_shape_that_has_no_whole_blocks_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageProblem, match=r"ggml.q4_0: shape"):
        dequantize("ggml.q4_0", random_data(Q4_0, (2, 32)), shape)


def test_an_unknown_encoding_is_refused_with_near_names() -> None:
    with pytest.raises(UsageProblem, match=r"near: .*ggml\.q4_0"):
        dequantize("ggml.q4_O", random_data(Q4_0, (2, 32)), (2, 32))


@every_unit
@pytest.mark.parametrize("offset", [1, 2, 3, 5])
def test_an_unaligned_view_decodes_as_an_aligned_copy_does(found: Unit, offset: int) -> None:
    shape = (3, 2 * found.block_elems)
    data = random_data(found, shape)
    moved = np.concatenate([np.zeros(offset, np.uint8), data])[offset:]
    np.testing.assert_array_equal(
        bits(dequantize(found.encoding, moved, shape)), bits(dequantize(found.encoding, data, shape))
    )


@every_unit
def test_a_read_only_file_mapping_at_an_odd_offset_is_decoded_in_place(found: Unit, tmp_path: Path) -> None:
    shape = (2, found.block_elems)
    data = random_data(found, shape)
    file = tmp_path / "weights"
    file.write_bytes(b"-" + data.tobytes())
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        view = np.frombuffer(mapping, np.uint8)[1:]
        got = dequantize(found.encoding, view, shape)
        del view
    np.testing.assert_array_equal(bits(got), bits(dequantize(found.encoding, data, shape)))


@every_unit
@pytest.mark.parametrize("rows", [0, 1])
def test_no_rows_and_no_columns_are_no_error(found: Unit, rows: int) -> None:
    shape = (rows, found.block_elems * (1 - rows))
    assert dequantize(found.encoding, np.empty(0, np.uint8), shape).shape == shape


@every_unit
def test_out_is_filled_to_its_end_and_not_beyond_it(found: Unit) -> None:
    shape = (5, found.block_elems)
    data = random_data(found, shape)
    guarded = np.full(5 * found.block_elems + 2, 12345.0, np.float32)
    out = guarded[1:-1].reshape(shape)
    assert dequantize(found.encoding, data, shape, out) is out
    assert guarded[0] == guarded[-1] == 12345.0
    np.testing.assert_array_equal(bits(out), bits(dequantize(found.encoding, data, shape)))


@every_unit
def test_the_seam_between_two_chunks_is_not_seen(found: Unit) -> None:
    blocks = CHUNK_WEIGHTS // found.block_elems + 3
    data = random_data(found, (blocks * found.block_elems,))
    whole = dequantize(found.encoding, data, (blocks, found.block_elems))
    for block in (0, blocks - 4, blocks - 3, blocks - 1):
        alone = data[block * found.block_bytes :][: found.block_bytes]
        np.testing.assert_array_equal(
            bits(whole[block]), bits(dequantize(found.encoding, alone, (found.block_elems,)))
        )


@every_unit
def test_a_large_tensor_is_decoded_without_large_temporaries(found: Unit) -> None:
    shape = (16, CHUNK_WEIGHTS)
    data, out = random_data(found, shape), np.empty(shape, np.float32)
    dequantize(found.encoding, data[: found.block_bytes], (found.block_elems,))
    tracemalloc.start()
    dequantize(found.encoding, data, shape, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A table look-up needs eight bytes a weight for its indices; the whole tensor would be 64 times CHUNK_WEIGHTS.
    assert peak < 16 * CHUNK_WEIGHTS


@every_unit
def test_infinite_and_nan_scales_raise_no_warning(found: Unit) -> None:
    data = np.full(found.block_bytes * 4, 0xFF, np.uint8)
    assert dequantize(found.encoding, data, (4, found.block_elems)).shape == (4, found.block_elems)
