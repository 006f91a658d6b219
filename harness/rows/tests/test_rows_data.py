"""The rows as they stand: none lost, none twice, every name in them real."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.containers.ggml_types import ggml_types
from harness.paths import REPOSITORY
from harness.rows.load import families, load_rows
from harness.rows.model import DIALECTS, STAND_INS, Dimension, Row
from kernels import units

ROWS = load_rows()

UPSTREAM = {
    "cross-cutting": 5,
    "gguf-encodings": 27,
    "modelopt": 6,
    "compressed-tensors": 11,
    "vllm-methods": 14,
    "kv-cache": 5,
    "mlx": 14,
}
ALIASES = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}


def of(row: Row, dimension: Dimension) -> set[str]:
    return set(row.coverage(dimension).required)


def test_none_of_the_82_upstream_rows_is_lost_or_added():
    counted = Counter(
        row.family for row in ROWS.values() if row.origin == "upstream" and row.family != "gguf-presets"
    )
    assert counted == UPSTREAM
    assert counted.total() == 82


def test_every_preset_name_of_the_quantizer_has_a_leaf():
    upstream = [row for row in ROWS.values() if row.family == "gguf-presets" and row.origin == "upstream"]
    assert len(upstream) == 37
    assert {row.id for row in upstream if row.alias_of} == {f"QUANT-GGUF-PRESET-{name}" for name in ALIASES}


@pytest.mark.parametrize(("alias", "target"), ALIASES.items())
def test_an_alias_claims_nothing_and_shows_what_its_target_shows(alias: str, target: str):
    row, meant = ROWS[f"QUANT-GGUF-PRESET-{alias}"], ROWS[f"QUANT-GGUF-PRESET-{target}"]
    assert row.alias_of == meant.id
    assert not row.claimable
    assert (row.dimensions, row.preset) == (meant.dimensions, meant.preset)


def test_a_preset_is_never_taken_for_the_encoding_of_its_name():
    assert ROWS["QUANT-GGUF-PRESET-IQ2_S"].preset.default == "ggml.iq2_xs"
    assert ROWS["QUANT-GGUF-PRESET-IQ2_M"].preset.default == "ggml.iq2_s"
    assert ROWS["QUANT-GGUF-PRESET-IQ3_XS"].preset.default == "ggml.iq3_s"
    assert ROWS["QUANT-GGUF-PRESET-IQ3_M"].preset.default == "ggml.iq3_s"
    for row in ROWS.values():
        if row.family == "gguf-presets":
            assert not row.encodings, row.id
            assert not row.coverage(Dimension.COMPUTE).applies, row.id


def test_no_two_presets_share_a_file_type_number():
    numbers = [row.preset.ftype for row in ROWS.values() if row.preset and not row.alias_of]
    assert len(numbers) == len(set(numbers)) == 36


def test_umbrella_and_retired_rows_cannot_be_claimed():
    unclaimable = {row.id for row in ROWS.values() if not row.claimable and not row.alias_of}
    assert unclaimable == {"QUANT-GGUF-COMPUTE", "QUANT-GGUF-PRESETS", "QUANT-INT8-BLOCK"}
    assert ROWS["QUANT-INT8-BLOCK"].retired.gone_in == "0.28.0"


def test_an_interpreter_or_shim_never_completes_a_dimension():
    for row in ROWS.values():
        for dimension, coverage in row.dimensions.items():
            assert not STAND_INS & set(coverage.required), (row.id, dimension)


def test_a_kernel_required_on_a_device_has_a_cell_for_its_stand_in():
    stand_in = {"triton@sm_90": "triton@interpreter", "metal@apple": "metal@shim"}
    for row in ROWS.values():
        coverage = row.coverage(Dimension.COMPUTE)
        for device, without in stand_in.items():
            if device in coverage.required:
                assert without in coverage.optional, (row.id, device)


def test_recognize_never_waits_for_a_device():
    for row in ROWS.values():
        assert of(row, Dimension.RECOGNIZE) in ({"cpu"}, set()), row.id


def test_every_encoding_that_a_gguf_file_may_hold_computes_on_cpu_and_triton():
    encodings = [row for row in ROWS.values() if row.family == "gguf-encodings"]
    assert len(encodings) == 28
    for row in encodings:
        assert of(row, Dimension.COMPUTE) >= {"cpu", "triton@sm_90"}, row.id


def test_integer_dots_on_cuda_are_promised_for_the_legacy_and_k_types_only():
    on_cuda = {
        row.id.removeprefix("QUANT-GGUF-")
        for row in ROWS.values()
        if row.family == "gguf-encodings" and "cuda@sm_90" in of(row, Dimension.COMPUTE)
    }
    assert on_cuda == {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}


def test_every_mlx_row_computes_on_cpu_triton_and_metal():
    for row in ROWS.values():
        if row.family == "mlx":
            assert of(row, Dimension.COMPUTE) == {"cpu", "triton@sm_90", "metal@apple"}, row.id


def ggml_encodings() -> dict[str, tuple[int, int]]:
    """Encoding -> (elements, bytes) of a block, from the container's type table and from the units."""
    known = {
        entry.encoding: (entry.block_elems, entry.block_bytes)
        for entry in ggml_types().values()
        if entry.encoding is not None
    }
    known |= {unit.encoding: (unit.block_elems, unit.block_bytes) for unit in units.load_units().values()}
    return known


def named_encodings() -> list[tuple[str, str]]:
    pairs = [(row.id, name) for row in ROWS.values() for name in row.encodings]
    return pairs + [(row.id, row.preset.default) for row in ROWS.values() if row.preset]


def test_no_row_names_an_encoding_of_an_unknown_dialect():
    for row_id, name in named_encodings():
        assert name.split(".")[0] in DIALECTS, row_id


def test_no_row_names_a_ggml_encoding_that_does_not_exist():
    known = ggml_encodings()
    for row_id, name in named_encodings():
        if name.startswith("ggml."):
            assert name in known, (row_id, name)


def test_the_size_that_a_gguf_row_states_is_the_size_of_its_block():
    known = ggml_encodings()
    for row in ROWS.values():
        if row.family == "gguf-encodings":
            (name,) = row.encodings
            elems, nbytes = known[name]
            assert row.block_elems == (elems,), row.id
            assert row.bits_per_weight == (nbytes * 8 / elems,), row.id


def test_the_bits_that_an_mlx_affine_row_states_follow_from_bits_and_group():
    for row in ROWS.values():
        if row.id.startswith("QUANT-MLX-AFFINE-Q"):
            bits = int(row.id[-1])
            assert row.encodings == tuple(f"mlx.affine{bits}_g{group}" for group in row.block_elems), row.id
            assert row.bits_per_weight == tuple(bits + 32 / group for group in row.block_elems), row.id


def test_every_container_type_that_holds_weights_has_a_row():
    covered = {name for row in ROWS.values() if row.family == "gguf-encodings" for name in row.encodings}
    cross = set(ROWS["QUANT-GGUF-CIQ-GEMM"].encodings)
    for entry in ggml_types().values():
        if entry.encoding is not None:
            assert entry.encoding in covered | cross, entry.name


def test_every_unit_names_rows_that_exist():
    for unit in units.load_units().values():
        assert set(unit.rows) <= set(ROWS), unit.encoding


def test_families_are_listed_in_the_order_of_their_files():
    assert list(families()) == list(dict.fromkeys(row.family for row in ROWS.values()))


def test_the_table_of_families_in_the_docs_counts_what_the_files_hold():
    page = (REPOSITORY / "docs" / "rows.md").read_text(encoding="utf-8")
    total = Counter(row.family for row in ROWS.values())
    ours = Counter(row.family for row in ROWS.values() if row.origin == "ours")
    for family in families():
        file = f"{family.replace('-', '_')}.yaml"
        assert f"| {family} | {total[family]} | {ours[family]} | `{file}` |" in page, family
