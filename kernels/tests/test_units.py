"""The unit loader: what is wrong with a unit.yaml is said with its file and its field."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from harness.errors import BadInput, UsageProblem
from harness.paths import KERNELS
from kernels.units import Unit, by_container_id, encoded_bytes, load_units, read_unit, unit

UNITS = list(load_units().values())
every_unit = pytest.mark.parametrize("found", UNITS, ids=lambda found: found.encoding)


def broken(tmp_path: Path, change: dict[str, object], *, remove: str | None = None) -> Path:
    """A copy of Q4_0's unit.yaml below tmp_path with some keys changed."""
    document = yaml.safe_load((KERNELS / "ggml/q4_0/unit.yaml").read_text(encoding="utf-8")) | change
    document.pop(remove, None)
    file = tmp_path / "ggml" / "q4_0" / "unit.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def field(**change: object) -> dict[str, object]:
    scale = {
        "name": "d",
        "offset": 0,
        "bytes": 2,
        "type": "f16",
        "count": 1,
        "role": "scale",
        "meaning": "scale",
    }
    codes = {
        "name": "qs",
        "offset": 2,
        "bytes": 16,
        "type": "u8",
        "count": 16,
        "role": "code",
        "meaning": "codes",
    }
    return {"fields": [scale, codes | change]}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"block_elems": "32"}, "block_elems"),
        ({"block_elems": 0}, "block_elems"),
        ({"block_bytes": 19}, "block_bytes"),
        ({"block_bytes": 18.0}, "block_bytes"),
        ({"exact": "yes"}, "exact"),
        ({"rows": "QUANT-GGUF-Q4_0"}, "rows"),
        ({"colour": "red"}, "colour"),
        ({"container_ids": {"gguf": -1}}, "container_ids.gguf"),
        ({"encoding": "ggml.q4_0"}, "encoding"),
        (field(offset=3), "fields.1 (qs).offset"),
        (field(offset=1), "fields.1 (qs).offset"),
        (field(bytes=15), "fields.1 (qs).bytes"),
        (field(type="u7"), "fields.1 (qs).type"),
        (field(role="codes"), "fields.1.role"),
        (field(name="d"), "fields"),
        (field(width=4), "fields.1.width"),
    ],
)
def test_a_wrong_field_is_not_loaded_and_is_named(
    tmp_path: Path, change: dict[str, object], named: str
) -> None:
    file = broken(tmp_path, change)
    with pytest.raises(BadInput) as raised:
        load_units(tmp_path)
    assert raised.value.field == named
    assert raised.value.file == str(file)


@pytest.mark.parametrize(
    "name", ["title", "docs", "block_elems", "fields", "formula", "source", "rows", "ops", "exact"]
)
def test_a_missing_field_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=rf"unit\.yaml, field {name}"):
        read_unit(broken(tmp_path, {}, remove=name))


@pytest.mark.parametrize(
    "text", ["a: [1", "- 1", "", "title: a\ntitle: b", "!!python/object/apply:os.system ['true']"]
)
def test_a_file_that_is_no_plain_mapping_is_refused_without_a_traceback_or_a_call(
    tmp_path: Path, text: str
) -> None:
    file = broken(tmp_path, {})
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as raised:
        read_unit(file)
    assert raised.value.file == str(file)


def test_two_units_with_one_container_id_are_refused(tmp_path: Path) -> None:
    broken(tmp_path, {})
    shutil.copytree(KERNELS / "ggml/q4_0", tmp_path / "ggml/q4_x")
    with pytest.raises(BadInput, match=r"q4_x.*container_ids\.gguf.*ggml\.q4_0 has it"):
        load_units(tmp_path)


def test_a_unit_without_its_neighbours_still_loads(tmp_path: Path) -> None:
    copy = tmp_path / "kernels"
    shutil.copytree(KERNELS, copy, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    shutil.rmtree(copy / "ggml" / "q4_k")
    assert list(load_units(copy)) == [name for name in load_units() if name != "ggml.q4_k"]


@every_unit
def test_the_fields_of_a_block_leave_no_gap_and_do_not_overlap(found: Unit) -> None:
    owner: list[str] = []
    for part in found.fields:
        assert part.offset == len(owner)
        owner += [part.name] * part.bytes
    assert len(owner) == found.block_bytes


@every_unit
def test_codes_packed_alike_are_as_many_as_the_weights(found: Unit) -> None:
    for part in found.fields:
        if part.bits is not None:
            assert part.bytes * 8 == part.bits * found.block_elems, part.name


@every_unit
def test_an_activation_encoding_that_is_named_exists(found: Unit) -> None:
    assert found.activation is None or found.activation in load_units()


def test_a_container_id_belongs_to_one_unit_and_leads_back_to_it() -> None:
    for found in UNITS:
        for container, type_id in found.container_ids.items():
            assert by_container_id(container, type_id) is found
    assert by_container_id("gguf", 4) is None
    assert by_container_id("safetensors", 12) is None


def test_a_misspelt_encoding_is_answered_with_near_names() -> None:
    with pytest.raises(UsageProblem, match=r"ggml\.q4_k"):
        unit("ggml.q4k")
    with pytest.raises(UsageProblem, match="known: "):
        unit("?")


def test_encoded_bytes_counts_whole_blocks_of_every_row() -> None:
    assert encoded_bytes(unit("ggml.q4_k"), (3, 512)) == 3 * 2 * 144
    assert encoded_bytes(unit("ggml.f16"), (7,)) == 14
    assert encoded_bytes(unit("ggml.q4_0"), (0, 64)) == 0
    assert encoded_bytes(unit("ggml.q4_k"), (1 << 20, 1 << 20)) == (1 << 40) // 256 * 144


@pytest.mark.parametrize("shape", [(), (3, 255), (512, 1), (-1, 256)])
def test_a_shape_that_is_no_whole_number_of_blocks_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageProblem, match=r"ggml\.q4_k: shape"):
        encoded_bytes(unit("ggml.q4_k"), shape)


def test_a_caller_cannot_change_what_the_next_one_gets() -> None:
    load_units().clear()
    assert "ggml.q4_0" in load_units()
