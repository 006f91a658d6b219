"""Split models: the parts are found from the first one, and a set that does not fit together is refused."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from harness.containers import open_checkpoint
from harness.containers.tests import gguf_bytes as g
from harness.errors import BadInput, UsageProblem

KV = tuple[bytes, int, bytes]


def split_keys(number: int, count: int, tensors: int) -> list[KV]:
    return [
        (b"split.no", g.U16, struct.pack("<H", number)),
        (b"split.count", g.U16, struct.pack("<H", count)),
        (b"split.tensors.count", g.I32, struct.pack("<i", tensors)),
    ]


def part_path(folder: Path, number: int, count: int) -> Path:
    return folder / f"model-{number + 1:05}-of-{count:05}.gguf"


def write_set(folder: Path, parts: list[list[g.Tensor]]) -> Path:
    """A valid set with these tensors; the path of the first part."""
    total = sum(map(len, parts))
    for number, tensors in enumerate(parts):
        keys = split_keys(number, len(parts), total)
        kvs = [g.KVS[0], *keys] if number == 0 else keys
        g.lay(kvs, tensors).write(part_path(folder, number, len(parts)))
    return part_path(folder, 0, len(parts))


def rewrite(folder: Path, number: int, count: int, kvs: list[KV], tensors: list[g.Tensor]) -> g.Laid:
    laid = g.lay(kvs, tensors)
    laid.write(part_path(folder, number, count))
    return laid


PARTS = [[], [g.TENSORS[0], g.TENSORS[1]], [g.TENSORS[2]]]


def test_all_parts_are_opened_from_the_first(tmp_path: Path) -> None:
    first = write_set(tmp_path, PARTS)
    with open_checkpoint(first) as checkpoint:
        assert [part.path.name for part in checkpoint.parts] == [
            part_path(tmp_path, n, 3).name for n in range(3)
        ]
        assert [(t.name, t.part) for t in checkpoint.tensors] == [
            (tensor.name.decode(), number) for number, tensors in enumerate(PARTS) for tensor in tensors
        ]
        assert checkpoint.architecture == "llama"
        for tensor in g.TENSORS:
            assert checkpoint.tensor_bytes(tensor.name.decode()).tobytes() == tensor.data
        everything = b"".join(part_path(tmp_path, n, 3).read_bytes() for n in range(3))
        assert checkpoint.sha256() == hashlib.sha256(everything).hexdigest()


def test_a_count_of_one_is_a_model_in_one_file_under_any_name(tmp_path: Path) -> None:
    path = g.lay(split_keys(0, 1, 3)).write(tmp_path / "model.gguf")
    with open_checkpoint(path) as checkpoint:
        assert len(checkpoint.parts) == 1


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    first = write_set(tmp_path, PARTS)
    part_path(tmp_path, 1, 3).unlink()
    with pytest.raises(BadInput) as caught:
        open_checkpoint(first)
    assert caught.value.file == str(first)
    assert caught.value.field == "kv[2] split.count"
    assert caught.value.got == "3 parts, of which 1 missing: model-00002-of-00003.gguf"


def test_65535_missing_parts_are_counted_not_listed(tmp_path: Path) -> None:
    first = g.lay(split_keys(0, 65535, 3)).write(part_path(tmp_path, 0, 65535))
    with pytest.raises(BadInput) as caught:
        open_checkpoint(first)
    assert str(caught.value.got).startswith(
        "65535 parts, of which 65534 missing: model-00002-of-65535.gguf, "
    )
    assert len(str(caught.value)) < 600


def test_a_later_part_points_at_the_first(tmp_path: Path) -> None:
    write_set(tmp_path, PARTS)
    with pytest.raises(BadInput) as caught:
        open_checkpoint(part_path(tmp_path, 1, 3))
    assert caught.value.field == "kv[0] split.no"
    assert caught.value.got == "1: this is part 2 of 3"
    assert caught.value.hint == "open the first part, model-00001-of-00003.gguf"


@pytest.mark.parametrize("name", ["renamed.gguf", "model-00002-of-00003.gguf", "model-00001-of-00004.gguf"])
def test_a_first_part_under_another_name_is_refused(tmp_path: Path, name: str) -> None:
    first = write_set(tmp_path, PARTS)
    renamed = first.rename(tmp_path / name)
    with pytest.raises(BadInput) as caught:
        open_checkpoint(renamed)
    assert (caught.value.field, caught.value.got) == ("file name", name)
    assert "-00001-of-00003.gguf" in caught.value.wanted


def test_parts_in_the_wrong_order_are_refused(tmp_path: Path) -> None:
    first = write_set(tmp_path, PARTS)
    laid = rewrite(tmp_path, 1, 3, split_keys(2, 3, 3), PARTS[1])
    with pytest.raises(BadInput) as caught:
        open_checkpoint(first)
    assert caught.value.file == str(part_path(tmp_path, 1, 3))
    assert (caught.value.field, caught.value.offset) == ("kv[0] split.no", laid.at["kv[0]"])
    assert (caught.value.got, caught.value.wanted) == (2, "1, by the file's name")


def test_a_part_of_a_set_of_another_size_is_refused(tmp_path: Path) -> None:
    first = write_set(tmp_path, PARTS)
    laid = rewrite(tmp_path, 2, 3, split_keys(2, 4, 3), PARTS[2])
    with pytest.raises(BadInput) as caught:
        open_checkpoint(first)
    assert (caught.value.field, caught.value.offset) == ("kv[1] split.count", laid.at["kv[1]"])
    assert (caught.value.got, caught.value.wanted) == (4, "3, as in the first part")


def test_a_part_without_split_keys_is_refused(tmp_path: Path) -> None:
    first = write_set(tmp_path, PARTS)
    rewrite(tmp_path, 2, 3, [], PARTS[2])
    with pytest.raises(BadInput) as caught:
        open_checkpoint(first)
    assert (caught.value.field, caught.value.got) == ("split.no", "no such key")


def test_a_split_key_of_another_type_is_refused_as_the_engine_refuses_it(tmp_path: Path) -> None:
    keys = split_keys(0, 3, 3)
    keys[1] = (b"split.count", g.U32, struct.pack("<I", 3))
    laid = g.lay(keys, [])
    with pytest.raises(BadInput) as caught:
        open_checkpoint(laid.write(part_path(tmp_path, 0, 3)))
    assert (caught.value.field, caught.value.offset) == ("kv[1] split.count type", laid.at["kv[1].type"])
    assert (caught.value.got, caught.value.wanted) == ("u32", "u16")


@pytest.mark.parametrize("promised", [2, 4, -1])
def test_a_wrong_total_of_tensors_is_refused(tmp_path: Path, promised: int) -> None:
    first = write_set(tmp_path, PARTS)
    laid = rewrite(tmp_path, 0, 3, split_keys(0, 3, promised), PARTS[0])
    with pytest.raises(BadInput) as caught:
        open_checkpoint(first)
    assert caught.value.file == str(first)
    assert (caught.value.field, caught.value.offset) == ("kv[2] split.tensors.count", laid.at["kv[2]"])
    assert (caught.value.got, caught.value.wanted) == (promised, "3, the tensors in all parts")


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path) -> None:
    first = write_set(tmp_path, PARTS)
    laid = rewrite(tmp_path, 2, 3, split_keys(2, 3, 3), [g.TENSORS[0]])
    with pytest.raises(BadInput) as caught:
        open_checkpoint(first)
    assert caught.value.file == str(part_path(tmp_path, 2, 3))
    assert (caught.value.field, caught.value.offset) == (
        "tensor_infos[0].name",
        laid.at["tensor_infos[0].name"],
    )
    assert caught.value.hint == "first as tensor_infos[0] of model-00002-of-00003.gguf"


def test_parts_of_both_byte_orders_are_refused(tmp_path: Path) -> None:
    first = write_set(tmp_path, PARTS)
    keys = [(b"split.no", g.U16, b"\0\2"), (b"split.count", g.U16, b"\0\3")]
    g.lay(keys, [], order=">").write(part_path(tmp_path, 2, 3))
    with pytest.raises(BadInput) as caught:
        open_checkpoint(first)
    assert (caught.value.field, caught.value.got) == ("version", "a big-endian file")


def test_a_part_that_is_a_folder_is_a_usage_problem(tmp_path: Path) -> None:
    first = write_set(tmp_path, PARTS)
    part_path(tmp_path, 1, 3).unlink()
    part_path(tmp_path, 1, 3).mkdir()
    with pytest.raises(UsageProblem, match=r"model-00002-of-00003\.gguf is a directory"):
        open_checkpoint(first)
