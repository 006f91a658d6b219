"""The type table of the container, held against the units, which state the same geometry on their own."""

from __future__ import annotations

import pytest

from harness.containers.ggml_types import ggml_types, removed_types
from kernels.units import load_units

UNITS = {name: unit for name, unit in load_units().items() if unit.dialect == "ggml"}


def test_every_number_up_to_the_last_is_a_type_or_a_removed_type() -> None:
    numbers = sorted([*ggml_types(), *removed_types()])
    assert numbers == list(range(43))


def test_names_and_encodings_are_unique() -> None:
    names = [kind.name for kind in ggml_types().values()]
    encodings = [kind.encoding for kind in ggml_types().values() if kind.encoding]
    assert len(set(names)) == len(names) == 35
    assert len(set(encodings)) == len(encodings) == 30


def test_integers_and_doubles_have_a_size_but_no_encoding() -> None:
    plain = {kind.name: kind.block_bytes for kind in ggml_types().values() if kind.encoding is None}
    assert plain == {"I8": 1, "I16": 2, "I32": 4, "I64": 8, "F64": 8}


@pytest.mark.parametrize("name", sorted(UNITS))
def test_a_unit_and_the_type_table_agree_on_the_block(name: str) -> None:
    unit = UNITS[name]
    kinds = [kind for kind in ggml_types().values() if kind.encoding == name]
    assert len(kinds) == 1
    assert (kinds[0].block_elems, kinds[0].block_bytes) == (unit.block_elems, unit.block_bytes)
    if "gguf" in unit.container_ids:
        assert unit.container_ids["gguf"] == kinds[0].type_id


def test_there_are_units_to_compare() -> None:
    assert "ggml.q4_0" in UNITS
