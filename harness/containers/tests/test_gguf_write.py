"""The writer: what it writes is byte for byte the layout by hand, and what no file can hold is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.containers import open_checkpoint
from harness.containers.checkpoint import ByteOrder
from harness.containers.gguf_write import TensorData, Typed, write_gguf
from harness.containers.tests import gguf_bytes as g
from harness.errors import UsageProblem

TENSORS = [TensorData(t.name.decode(), t.type_id, tuple(reversed(t.dims)), t.data) for t in g.TENSORS]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [32, 64, 4096])
def test_a_written_file_is_the_one_laid_out_by_hand(
    tmp_path: Path, order: str, version: int, alignment: int
) -> None:
    kvs = [
        (b"general.architecture", g.STR, g.text(b"llama", order)),
        (b"tokens", g.ARR, g.array(g.STR, 2, g.text(b"a", order) + g.text(b"\xff", order), order)),
    ]
    if alignment != 32:
        big = "big" if order == ">" else "little"
        kvs.append((b"general.alignment", g.U32, alignment.to_bytes(4, big)))
    write_gguf(
        tmp_path / "written.gguf",
        {"general.architecture": "llama", "tokens": ["a", b"\xff"]},
        TENSORS,
        version=version,
        byte_order="little" if order == "<" else "big",
        alignment=alignment,
    )
    by_hand = g.lay(kvs, version=version, order=order, alignment=alignment).data
    assert (tmp_path / "written.gguf").read_bytes() == bytes(by_hand)
    assert [path.name for path in tmp_path.iterdir()] == ["written.gguf"]


@pytest.mark.parametrize(
    ("given", "type_name", "read"),
    [
        (True, "bool", True),
        (7, "u32", 7),
        (-7, "i32", -7),
        (1 << 40, "u64", 1 << 40),
        (-(1 << 40), "i64", -(1 << 40)),
        (0.5, "f32", 0.5),
        ("né", "str", "né"),
        (b"\xff", "str", b"\xff"),
        ([1, 2], "u32[]", [1, 2]),
        ([-1, 3_000_000_000], "i64[]", [-1, 3_000_000_000]),
        ([True, False], "bool[]", [True, False]),
        ([0.5, 1], "f32[]", [0.5, 1.0]),
        (("a", "b"), "str[]", ["a", "b"]),
        (np.array([1, 2], np.int16), "i16[]", [1, 2]),
        (np.array([True]), "bool[]", [True]),
        (np.array([], np.float64), "f64[]", []),
        (np.float32(0.5), "f32", 0.5),
        (Typed("u16", 9), "u16", 9),
        (Typed("i8", [-1, 1]), "i8[]", [-1, 1]),
        (Typed("str", []), "str[]", []),
    ],
)
def test_a_value_is_written_as_the_type_it_needs(
    tmp_path: Path, given: Any, type_name: str, read: Any
) -> None:
    write_gguf(tmp_path / "x.gguf", {"key": given}, [])
    with open_checkpoint(tmp_path / "x.gguf") as checkpoint:
        assert checkpoint.metadata["key"].type_name == type_name
        value = checkpoint.value("key")
    assert (value.tolist() if isinstance(value, np.ndarray) else value) == read


def test_data_can_come_in_pieces_and_as_arrays(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    write_gguf(
        tmp_path / "x.gguf",
        {},
        [
            ("pieces", 0, (3, 4), lambda: (row for row in values)),
            ("view", 0, (4, 3), values.T),
            ("none", 0, (0, 4), b""),
        ],
    )
    with open_checkpoint(tmp_path / "x.gguf") as checkpoint:
        assert checkpoint.tensor_bytes("pieces").tobytes() == values.tobytes()
        assert checkpoint.tensor_bytes("view").tobytes() == np.ascontiguousarray(values.T).tobytes()
        assert checkpoint.tensor("none").shape == (0, 4)


ONE = ("w", 2, (32,), bytes(18))


@pytest.mark.parametrize(
    ("metadata", "tensors", "options", "message"),
    [
        ({}, [("w", 2, (32,), bytes(17))], {}, "17 bytes of data, wanted 18"),
        ({}, [("w", 2, (48,), bytes(18))], {}, "not a multiple of 32"),
        ({}, [("w", 99, (32,), bytes(18))], {}, "type 99"),
        ({}, [("w" * 64, 2, (32,), bytes(18))], {}, "at most 63 bytes of name"),
        ({}, [("w", 2, (1, 1, 1, 1, 32), bytes(18))], {}, "4 dimensions"),
        ({}, [ONE, ONE], {}, "w is given twice"),
        ({}, [ONE], {"version": 1}, "version 1"),
        ({}, [ONE], {"alignment": 24}, "power of two"),
        ({"general.alignment": 64}, [ONE], {}, "written from the argument"),
        ({"": 1}, [], {}, "empty key"),
        ({"k": []}, [], {}, "empty list"),
        ({"k": None}, [], {}, "NoneType has no metadata type"),
        ({"k": 1 << 64}, [], {}, "no metadata type holds"),
        ({"k": Typed("u8", 256)}, [], {}, "not a value of type u8"),
        ({"k": 1e300}, [], {}, "not a value of type f32"),
        ({"k": ["a", 1]}, [], {}, "not every item is a string"),
        ({"k": [1, "a"]}, [], {}, "not a value of type u32"),
        ({"k": Typed("arr", 1)}, [], {}, "arr is not a metadata type of single values"),
        ({"k": np.zeros((2, 2), np.float32)}, [], {}, "2-dimensional"),
        ({"k": np.zeros(2, np.complex64)}, [], {}, "complex64"),
    ],
)
def test_what_no_file_can_hold_is_refused_and_leaves_no_file(
    tmp_path: Path, metadata: dict[str, Any], tensors: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageProblem, match=message):
        write_gguf(tmp_path / "x.gguf", metadata, tensors, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("order", ["little", "big"])
def test_the_bits_of_an_array_survive_its_writing(tmp_path: Path, order: ByteOrder) -> None:
    signalling = np.array([0x7F800001, 0xFFB2B97F, 0x80000000], np.uint32)
    write_gguf(tmp_path / "x.gguf", {"key": signalling.view(np.float32)}, [], byte_order=order)
    with open_checkpoint(tmp_path / "x.gguf") as checkpoint:
        assert checkpoint.value("key").view(np.uint32).tolist() == signalling.tolist()
