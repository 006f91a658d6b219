"""The generators hold what they promise, and each of their cases tells its fault from the right decode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cases.census import missing, read_scale
from cases.generators import (
    Blocks,
    Case,
    ascending,
    code_fields,
    columns,
    every_code,
    every_half_scale,
    float_type,
    random_blocks,
    scale_fields,
    set_scale,
    special_scales,
    suite,
    uniform_bytes,
)
from kernels.provider import dequantize
from kernels.units import Unit, load_units, unit

UNITS = list(load_units().values())
every_unit = pytest.mark.parametrize("found", UNITS, ids=lambda found: found.encoding)
SEED = 3


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def decode(found: Unit, blocks: Blocks) -> np.ndarray:
    return dequantize(found.encoding, blocks.reshape(-1), (len(blocks), found.block_elems))


def differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Per block: does any lane differ in its bits, NaNs being equal?"""
    return ((a.view(np.uint32) != b.view(np.uint32)) & ~(np.isnan(a) & np.isnan(b))).any(axis=1)


@every_unit
def test_the_suite_holds_every_value_of_every_axis(found: Unit) -> None:
    assert missing(found, (case.blocks for case in suite(found, random=512, seed=SEED))) == []


@every_unit
def test_a_suite_is_the_same_every_time(found: Unit) -> None:
    first, second = (list(suite(found, random=64, seed=SEED)) for _ in range(2))
    assert [case.name for case in first] == [case.name for case in second]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.blocks, other.blocks)


def without(found: Unit, name: str) -> list[Case]:
    return [case for case in suite(found, random=64, seed=SEED) if case.name != name]


@pytest.mark.parametrize(
    ("encoding", "left_out", "said"),
    [
        ("ggml.q6_k", "every code in every lane", "no block has the code 1 in every lane"),
        ("ggml.q5_1", "special scales", "no block has d = "),
        ("ggml.iq1_m", "special scales", "no block has scales = "),
        ("ggml.mxfp4", "special scales", "no block has e = "),
        ("ggml.f32", "special values", "no block has x = "),
    ],
)
def test_the_census_misses_a_case_that_is_left_out(encoding: str, left_out: str, said: str) -> None:
    found = unit(encoding)
    kept = [case.blocks for case in without(found, left_out) if case.name != "every half-precision scale"]
    assert any(line.startswith(said) for line in missing(found, kept))


def test_the_census_misses_a_code_that_never_occurs() -> None:
    found = unit("ggml.q4_0")
    kept = []
    for case in suite(found, random=64, seed=SEED):
        codes = case.blocks[:, columns(found.fields[1])]
        kept.append(case.blocks[~((codes & 15) == 15).any(axis=1)])
    lines = missing(found, kept)
    assert "no block has the code 15 in every lane" in lines
    assert "byte 2 (qs) is never 0x0F (16 values missing)" in lines


@pytest.mark.parametrize("found", [u for u in UNITS if scale_fields(u)], ids=lambda found: found.encoding)
def test_a_scale_that_is_set_is_the_scale_that_is_read(found: Unit) -> None:
    blocks = random_blocks(found, 256, rng())
    for part in scale_fields(found):
        patterns = np.arange(256) * (1 if float_type(part) in ("e8m0", "ue4m3") else 255)
        before = blocks.copy()
        set_scale(blocks, part, patterns)
        np.testing.assert_array_equal(read_scale(blocks, part), patterns)
        outside = np.ones(found.block_bytes, np.bool_)
        outside[columns(part)] = False
        np.testing.assert_array_equal(blocks[:, outside], before[:, outside])


SUB_SCALES = {
    "ggml.q2_k": (16, 16),
    "ggml.q3_k": (64, 16),
    "ggml.q4_k": (64, 32),
    "ggml.q5_k": (64, 32),
    "ggml.q6_k": (256, 16),
    "ggml.iq4_xs": (64, 32),
}
"""Encoding -> how many sub-scales there are, and for how many weights each is."""

COUNTED = [(encoding, "scale") for encoding in SUB_SCALES]
COUNTED += [(encoding, "min") for encoding in ("ggml.q2_k", "ggml.q4_k", "ggml.q5_k")]


def test_every_encoding_with_packed_sub_scales_and_codes_is_counted_below() -> None:
    assert set(SUB_SCALES) == {
        found.encoding
        for found in UNITS
        if code_fields(found) and any(part.role == "sub_scale" for part in found.fields)
    }


def test_every_encoding_with_sub_minima_is_counted_below() -> None:
    with_minima = {
        found.encoding for found in UNITS if {"sub_scale", "min"} <= {part.role for part in found.fields}
    }
    assert with_minima == {encoding for encoding, role in COUNTED if role == "min"}


@pytest.mark.parametrize(("encoding", "role"), COUNTED)
def test_every_sub_scale_and_sub_minimum_occurs_in_every_sub_block(encoding: str, role: str) -> None:
    found = unit(encoding)
    how_many, weights = SUB_SCALES[encoding]
    blocks = np.concatenate([case.blocks for case in suite(found, random=4096, seed=SEED)])
    fields = code_fields(found)
    for part, byte in zip(fields, uniform_bytes(fields, 1), strict=True):
        blocks[:, columns(part)] = byte
    for part in scale_fields(found):
        set_scale(blocks, part, np.full(len(blocks), 0x3C00 if part.role == role else 0))
    lanes = decode(found, blocks)[:, ::weights]
    assert [len(np.unique(lane)) for lane in lanes.T] == [how_many] * (found.block_elems // weights)


def swapped_nibbles(found: Unit, blocks: Blocks) -> Blocks:
    faulty = blocks.copy()
    for part in code_fields(found):
        codes = faulty[:, columns(part)]
        faulty[:, columns(part)] = codes << 4 | codes >> 4
    return faulty


def reversed_bytes(found: Unit, blocks: Blocks) -> Blocks:
    faulty = blocks.copy()
    for part in found.fields:
        if part.role not in ("scale", "min", "value", "sum"):
            faulty[:, columns(part)] = faulty[:, columns(part)][:, ::-1]
    return faulty


def neighbours_scale(found: Unit, blocks: Blocks) -> Blocks:
    faulty = blocks.copy()
    for part in scale_fields(found):
        set_scale(faulty, part, np.roll(read_scale(blocks, part), 1))
    return faulty


def flushed_subnormals(found: Unit, blocks: Blocks) -> Blocks:
    faulty = blocks.copy()
    for part in scale_fields(found):
        pattern = read_scale(blocks, part)
        set_scale(faulty, part, np.where(pattern & 0x7C00, pattern, pattern & 0x8000))
    return faulty


def saturated_infinities(found: Unit, blocks: Blocks) -> Blocks:
    faulty = blocks.copy()
    for part in scale_fields(found):
        pattern = read_scale(blocks, part)
        set_scale(faulty, part, np.where(pattern & 0x7FFF == 0x7C00, pattern - 1, pattern))
    return faulty


PACKED = [found for found in UNITS if any(p.role in ("code", "index") for p in found.fields)]
NIBBLES = [u for u in UNITS if any(p.bits in (1, 2, 4) for p in code_fields(u))]
HALF = [u for u in UNITS if any(float_type(p) == "f16" for p in scale_fields(u))]


def caught(found: Unit, blocks: Blocks, fault: Callable[[Unit, Blocks], Blocks]) -> int:
    return int(np.count_nonzero(differ(decode(found, blocks), decode(found, fault(found, blocks)))))


@pytest.mark.parametrize("found", NIBBLES, ids=lambda found: found.encoding)
def test_the_ascending_pattern_shows_swapped_nibbles(found: Unit) -> None:
    assert caught(found, ascending(found), swapped_nibbles) > 200


@pytest.mark.parametrize("found", PACKED, ids=lambda found: found.encoding)
def test_the_ascending_pattern_shows_bytes_in_another_order(found: Unit) -> None:
    assert caught(found, ascending(found), reversed_bytes) > 200


@pytest.mark.parametrize("found", HALF, ids=lambda found: found.encoding)
def test_every_half_scale_shows_the_scale_of_a_neighbour(found: Unit) -> None:
    assert caught(found, every_half_scale(found, rng()), neighbours_scale) > 60_000


@pytest.mark.parametrize("fault", [flushed_subnormals, saturated_infinities])
@pytest.mark.parametrize("found", HALF, ids=lambda found: found.encoding)
def test_special_scales_show_flushed_and_saturated_ones(
    found: Unit, fault: Callable[[Unit, Blocks], Blocks]
) -> None:
    assert caught(found, special_scales(found, rng()), fault) > 0


@pytest.mark.parametrize("found", [u for u in UNITS if code_fields(u)], ids=lambda found: found.encoding)
def test_every_code_decodes_to_a_value_of_its_own(found: Unit) -> None:
    blocks = every_code(found)
    for part in found.fields:
        if part.role == "sub_scale":
            blocks[:, columns(part)] = 1
    values = decode(found, blocks)
    # E2M1 has a code for -0 too, which the table of ggml decodes to 0.
    expected = len(blocks) - (found.encoding in ("ggml.mxfp4", "ggml.nvfp4"))
    assert [len(np.unique(lane)) for lane in values.T] == [expected] * found.block_elems
