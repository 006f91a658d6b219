"""Every encoding's Triton decode, under the interpreter, bit for bit against the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cases.generators import Case, suite
from harness.errors import UsageProblem
from kernels import triton_provider
from kernels.provider import dequantize
from kernels.tables import tables_of
from kernels.units import Unit, load_units, unit

every_unit = pytest.mark.parametrize("found", load_units().values(), ids=lambda found: found.encoding)
RANDOM, KEPT = 100, 300


def cases_of(found: Unit) -> list[Case]:
    """The suite of an encoding, each case cut down to a draw of its blocks that the interpreter can do in a second."""
    rng = np.random.default_rng(11)
    kept = KEPT if found.block_elems > 1 else 20 * KEPT
    return [
        Case(case.name, np.ascontiguousarray(case.blocks[rng.permutation(len(case.blocks))[:kept]]))
        for case in suite(found, random=RANDOM, seed=11)
    ]


def bits(values: torch.Tensor) -> np.ndarray:
    """The bits, with every NaN made the same."""
    integers = values.view({4: torch.int32, 2: torch.int16}[values.element_size()]).numpy()
    return np.where(values.isnan().numpy(), 0x7FFF, integers)


def tensor(blocks: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(blocks.reshape(-1))


def whole(found: Unit) -> tuple[np.ndarray, torch.Tensor]:
    """The blocks of all cases one after the other, and what the reference makes of them."""
    blocks = np.concatenate([case.blocks for case in cases_of(found)])
    shape = (len(blocks), found.block_elems)
    return blocks, torch.from_numpy(dequantize(found.encoding, blocks.reshape(-1), shape))


@every_unit
def test_a_decode_has_the_bits_of_the_reference(found: Unit) -> None:
    for case in cases_of(found):
        shape = (len(case.blocks), found.block_elems)
        expected = torch.from_numpy(dequantize(found.encoding, case.blocks.reshape(-1), shape))
        got = triton_provider.dequantize(found.encoding, tensor(case.blocks), shape)
        np.testing.assert_array_equal(bits(got), bits(expected), err_msg=case.name)


@every_unit
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_narrow_output_is_the_value_rounded_once(found: Unit, dtype: torch.dtype) -> None:
    blocks, expected = whole(found)
    got = triton_provider.dequantize(found.encoding, tensor(blocks), expected.shape, dtype)
    np.testing.assert_array_equal(bits(got), bits(expected.to(dtype)))


@every_unit
@pytest.mark.parametrize("offset", [1, 2, 6])
def test_data_at_an_odd_address_gives_the_same_bits(found: Unit, offset: int) -> None:
    blocks, expected = whole(found)
    kept = blocks[:64]
    moved = torch.cat([torch.full((offset,), 0xFF, dtype=torch.uint8), tensor(kept)])[offset:]
    got = triton_provider.dequantize(found.encoding, moved, (len(kept), found.block_elems))
    np.testing.assert_array_equal(bits(got), bits(expected[: len(kept)]))


@every_unit
def test_an_output_is_filled_to_its_end_and_not_beyond_it(found: Unit) -> None:
    blocks, expected = whole(found)
    kept = blocks[:5]
    guarded = torch.full((expected[:5].numel() + 2,), 12345.0)
    out = guarded[1:-1].view(5, found.block_elems)
    assert (
        triton_provider.dequantize(found.encoding, tensor(np.ascontiguousarray(kept)), out.shape, out=out)
        is out
    )
    assert guarded[0] == guarded[-1] == 12345.0
    np.testing.assert_array_equal(bits(out), bits(expected[:5]))


@every_unit
def test_rows_come_in_the_order_they_are_asked_for(found: Unit) -> None:
    blocks, _ = whole(found)
    row_blocks = 3 if found.block_elems > 1 else 5
    rows = 11
    data = np.ascontiguousarray(blocks[: rows * row_blocks]).reshape(-1)
    shape = (rows, row_blocks * found.block_elems)
    wanted = torch.tensor([10, 0, 3, 3, 9])
    expected = torch.from_numpy(dequantize(found.encoding, data, shape))[wanted]
    got = triton_provider.get_rows(found.encoding, wanted, torch.from_numpy(data), shape)
    np.testing.assert_array_equal(bits(got), bits(expected))


@pytest.mark.parametrize("wanted", [[-1], [0, 4], [1 << 40]])
def test_a_row_that_does_not_exist_is_refused(wanted: list[int]) -> None:
    data = torch.zeros(4 * 18, dtype=torch.uint8)
    with pytest.raises(UsageProblem, match=r"get_rows ggml\.q4_0: rows: got numbers .*, wanted from 0 to 3"):
        triton_provider.get_rows("ggml.q4_0", torch.tensor(wanted), data, (4, 32))


def test_no_row_at_all_is_no_error() -> None:
    data = torch.zeros(4 * 18, dtype=torch.uint8)
    none = torch.empty(0, dtype=torch.int64)
    assert triton_provider.get_rows("ggml.q4_0", none, data, (4, 32)).shape == (0, 32)
    assert triton_provider.dequantize("ggml.q4_0", data[:0], (0, 32)).shape == (0, 32)


def test_a_row_beyond_two_to_the_31_bytes_is_found() -> None:
    """Only the pages that are touched become memory."""
    found = unit("ggml.q8_0")
    row_bytes = 4096 * found.block_bytes
    rows = (1 << 31) // row_bytes + 2
    data = torch.empty(rows * row_bytes, dtype=torch.uint8)
    last = np.random.default_rng(3).integers(0, 256, row_bytes, dtype=np.uint8)
    data[-row_bytes:] = torch.from_numpy(last)
    shape = (rows, 4096 * found.block_elems)
    got = triton_provider.get_rows(found.encoding, torch.tensor([rows - 1]), data, shape)
    expected = torch.from_numpy(dequantize(found.encoding, last, (1, shape[1])))
    np.testing.assert_array_equal(bits(got), bits(expected))


def test_no_magnitude_that_a_sign_is_put_on_is_zero() -> None:
    """The grid decodes negate by 0 - v, which would lose the sign of a zero."""
    signed = {
        found.encoding: found for found in load_units().values() if found.name.startswith(("iq2", "iq3"))
    }
    assert signed
    for found in signed.values():
        assert tables_of(found)["grid"].min() > 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data": torch.zeros(36, dtype=torch.int8)}, r"data: got int8 \[36\], wanted a uint8 tensor"),
        ({"data": torch.zeros((2, 18), dtype=torch.uint8)}, r"data: got uint8 \[2, 18\]"),
        ({"data": torch.zeros(35, dtype=torch.uint8)}, r"data: got 35 bytes, wanted 36 for shape \(2, 32\)"),
        ({"data": torch.zeros(72, dtype=torch.uint8)[::2]}, "data: got stride 2, wanted contiguous bytes"),
        ({"data": np.zeros(36, np.uint8)}, "data: got ndarray, wanted a uint8 tensor"),
        ({"out_dtype": torch.float64}, r"out_dtype: got torch\.float64"),
        ({"out": torch.empty(32, 2)}, r"out: got float32 \[32, 2\]"),
        ({"out": torch.empty(32, 2).T}, r"out: got strides \(1, 2\), wanted contiguous rows"),
    ],
)
def test_what_cannot_be_decoded_is_refused_by_name(changed: dict[str, object], said: str) -> None:
    arguments = {"data": torch.zeros(36, dtype=torch.uint8), "shape": (2, 32)} | changed
    with pytest.raises(UsageProblem, match=rf"dequantize ggml\.q4_0: {said}"):
        triton_provider.dequantize("ggml.q4_0", **arguments)


def test_an_output_in_the_memory_of_the_data_is_refused() -> None:
    memory = torch.zeros(400, dtype=torch.uint8)
    with pytest.raises(UsageProblem, match="out: got memory that is read"):
        triton_provider.dequantize(
            "ggml.q4_0", memory[:36], (2, 32), out=memory[32:288].view(torch.float32).view(2, 32)
        )
