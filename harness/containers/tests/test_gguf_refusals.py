"""Every kind of malformed GGUF file, made by one change to a valid one: each is refused where it is wrong."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.containers import open_checkpoint
from harness.containers.tests import gguf_bytes as g
from harness.errors import BadInput

EMBD, ATTN, NORM = (tensor.name.decode() for tensor in g.TENSORS)


@dataclass(frozen=True)
class Refusal:
    """`at`: the label of the field whose offset is wanted, or the offset itself. `got`, `wanted`: what they begin with."""

    fault: str
    make: Callable[[], g.Laid]
    field: str
    at: str | int
    got: str
    wanted: str
    tensor: str | None = None


def changed(label: str, code: str, value: int) -> Callable[[], g.Laid]:
    """The valid file with one number replaced."""

    def make() -> g.Laid:
        laid = g.lay()
        laid.set(label, code, value)
        return laid

    return make


def cut(label: str, more: int = 0) -> Callable[[], g.Laid]:
    """The valid file, ended `more` bytes after the beginning of a field."""

    def make() -> g.Laid:
        laid = g.lay()
        del laid.data[laid.at[label] + more :]
        return laid

    return make


def with_tensor(tensor: g.Tensor) -> Callable[[], g.Laid]:
    """The valid file with its last tensor replaced."""
    return lambda: g.lay(tensors=[*g.TENSORS[:2], tensor])


def with_kv(index: int, key: bytes, type_id: int, payload: bytes) -> Callable[[], g.Laid]:
    """The valid file with one key-value pair replaced."""
    return lambda: g.lay([*g.KVS[:index], (key, type_id, payload), *g.KVS[index + 1 :]])


def last_4k_gone() -> g.Laid:
    laid = g.lay(tensors=[*g.TENSORS, g.Tensor(b"output.weight", (2048,), 0, bytes(8192))])
    del laid.data[-4096:]
    return laid


def one_tensor_too_many() -> g.Laid:
    # More data behind the infos, so that the bytes taken for a fourth info are tensor data, as in a real file.
    laid = g.lay(tensors=[*g.TENSORS[:2], g.Tensor(NORM.encode(), (64,), 0, b"\xa5" * 256)])
    laid.set("tensor_count", "Q", 4)
    return laid


def start_only(count: int) -> Callable[[], g.Laid]:
    return lambda: g.Laid(data=bytearray(g.lay().data[:count]))


HEADER = [
    Refusal("zero bytes", start_only(0), "file size", 0, "0 bytes", "a checkpoint"),
    Refusal("half a magic", start_only(2), "magic", 0, "b'GG'", "GGUF"),
    Refusal("a magic alone", start_only(4), "header", 4, "the end of the file after 4 bytes", "a header of 24 bytes"),
    Refusal("a cut header", start_only(23), "header", 23, "the end of the file after 23", "a header of 24 bytes"),
    Refusal("version 99", changed("version", "I", 99), "version", 4, "99", "version 2 or 3"),
    Refusal("version 1", changed("version", "I", 1), "version", 4, "1", "version 2 or 3"),
    Refusal("version 0", changed("version", "I", 0), "version", 4, "0", "version 2 or 3"),
    Refusal("version 4", changed("version", "I", 4), "version", 4, "4", "version 2 or 3"),
    Refusal("2^63 tensors", changed("tensor_count", "Q", 1 << 63), "tensor_count", 8, "9223372036854775808", "at most "),
    Refusal("2^64-1 tensors", changed("tensor_count", "Q", (1 << 64) - 1), "tensor_count", 8, "1844674407", "at most "),
    Refusal("2^60 keys", changed("kv_count", "Q", 1 << 60), "kv_count", 16, "1152921504606846976", "at most "),
    Refusal("one tensor too many", one_tensor_too_many, "tensor_count", 8, "4", "3: so many tensors account for the whole"),
    Refusal("one tensor too few", changed("tensor_count", "Q", 2), "tensor_count", 8, "2", "at least 3", NORM),
    Refusal("no tensor counted", changed("tensor_count", "Q", 0), "tensor_count", 8, "0", "at least 1", EMBD),
    Refusal("other byte order", lambda: g.Laid(data=bytearray(b"FUGG") + g.lay().data[4:]), "magic", 0, "b'FUGG", "GGUF"),
]  # fmt: skip

METADATA = [
    Refusal("a key longer than the file", changed("kv[2].key", "Q", 1 << 40), "kv[2].key", "kv[2].key", "a string of 1099511627776 bytes", "at most "),
    Refusal("an empty key", with_kv(1, b"", g.U8, b"\x01"), "kv[1].key", "kv[1].key", "an empty key", "a name"),
    Refusal("a key of 2^16 bytes", with_kv(1, b"k" * 65536, g.U8, b"\x01"), "kv[1].key", "kv[1].key", "a string of 65536 bytes", "at most 65535"),
    Refusal("a duplicate key", with_kv(2, b"general.architecture", g.STR, g.text(b"x")), "kv[2].key", "kv[2].key", "general.architecture again", "a key that occurs once"),
    Refusal("a key with a NUL", with_kv(1, b"general.alignment\0", g.U32, bytes([64, 0, 0, 0])), "kv[1].key", "kv[1].key", "b'general.alignment\\x00'", "a key without NUL"),
    Refusal("an unknown value type", changed("kv[2].type", "I", 13), "kv[2] llama.block_count type", "kv[2].type", "13", "a metadata type: 0 u8"),
    Refusal("a string longer than the file", changed("kv[0]", "Q", 1 << 62), "kv[0] general.architecture", "kv[0]", "a string of 4611686018427387904 bytes", "at most "),
    Refusal("an array of arrays", changed("kv[4]", "I", g.ARR), "kv[4] tokenizer.ggml.scores item type", "kv[4]", "9 (an array of arrays)", "a type of single values"),
    Refusal("an unknown item type", changed("kv[4]", "I", 77), "kv[4] tokenizer.ggml.scores item type", "kv[4]", "77", "a metadata type"),
    Refusal("alignment of another type", with_kv(1, b"general.alignment", g.U64, bytes([32, 0, 0, 0, 0, 0, 0, 0])), "kv[1] general.alignment type", "kv[1].type", "u64", "u32"),
    Refusal("an array of alignments", with_kv(1, b"general.alignment", g.ARR, g.array(g.U32, 1, bytes([32, 0, 0, 0]))), "kv[1] general.alignment type", "kv[1].type", "u32[]", "u32"),
    Refusal("alignment 0", changed("kv[1]", "I", 0), "kv[1] general.alignment", "kv[1]", "0", "a power of two"),
    Refusal("alignment 48", changed("kv[1]", "I", 48), "kv[1] general.alignment", "kv[1]", "48", "a power of two"),
    Refusal("an architecture that is a number", with_kv(0, b"general.architecture", g.U32, bytes(4)), "kv[0] general.architecture type", "kv[0].type", "u32", "str"),
    Refusal("a file that ends in a key", cut("kv[2].key", 9), "kv[2].key", "kv[2].key", "a string of 17 bytes", "at most 1"),
    Refusal("a file that ends in a type", cut("kv[2].type", 2), "kv[2] llama.block_count type", "kv[2].type", "2 bytes before the end", "4 bytes of a u32"),
    Refusal("a file that ends in a value", cut("kv[2]", 3), "kv[2] llama.block_count", "kv[2]", "3 bytes before the end", "4 bytes of u32"),
]  # fmt: skip

TENSOR_INFOS = [
    Refusal("a name longer than the file", changed("tensor_infos[1].name", "Q", 1 << 61), "tensor_infos[1].name", "tensor_infos[1].name", "a string of 2305843009213693952 bytes", "at most "),
    Refusal("a name of 64 bytes", with_tensor(g.Tensor(b"n" * 64, (8,), 0, bytes(32))), "tensor_infos[2].name", "tensor_infos[2].name", "a string of 64 bytes", "at most 63 bytes"),
    Refusal("a name with a NUL", with_tensor(g.Tensor(b"a\0b", (8,), 0, bytes(32))), "tensor_infos[2].name", "tensor_infos[2].name", "b'a\\x00b'", "a name without NUL"),
    Refusal("a duplicate tensor name", with_tensor(g.Tensor(EMBD.encode(), (8,), 0, bytes(32))), "tensor_infos[2].name", "tensor_infos[2].name", f"{EMBD} again", "a name that occurs once"),
    Refusal("five dimensions", with_tensor(g.Tensor(b"five", (1, 1, 1, 1, 8), 0, bytes(32))), "tensor_infos[2].n_dims", "tensor_infos[2].n_dims", "5", "at most 4", "five"),
    Refusal("2^32-1 dimensions", changed("tensor_infos[1].n_dims", "I", (1 << 32) - 1), "tensor_infos[1].n_dims", "tensor_infos[1].n_dims", "4294967295", "at most 4", ATTN),
    Refusal("a negative dimension", changed("tensor_infos[1].dims[0]", "Q", (1 << 64) - 64), "tensor_infos[1].dims[0]", "tensor_infos[1].dims[0]", "18446744073709551552", "fewer than 9223372036854775807", ATTN),
    Refusal("dimensions whose product overflows", changed("tensor_infos[1].dims[1]", "Q", 1 << 58), "tensor_infos[1].dims[1]", "tensor_infos[1].dims[1]", "288230376151711744", "fewer than", ATTN),
    Refusal("more bytes than a file can have", with_tensor(g.Tensor(b"e", (1 << 61,), 27, b"")), "tensor_infos[2].dims", "tensor_infos[2].dims[0]", "18446744073709551616 bytes of I64", "at most 9223372036854775807 bytes", "e"),
    Refusal("an empty dimension beside a huge one", with_tensor(g.Tensor(b"e", (0, 1 << 62, 4), 0, b"")), "tensor_infos[2].dims[2]", "tensor_infos[2].dims[2]", "4", "fewer than", "e"),
    Refusal("type id 99", changed("tensor_infos[1].type", "I", 99), "tensor_infos[1].type", "tensor_infos[1].type", "99", "a ggml type number, 0 to 42 without 4, 5, 31", ATTN),
    Refusal("a negative type id", changed("tensor_infos[1].type", "I", (1 << 32) - 1), "tensor_infos[1].type", "tensor_infos[1].type", "4294967295", "a ggml type number", ATTN),
    Refusal("a row that is not whole blocks", changed("tensor_infos[1].dims[0]", "Q", 48), "tensor_infos[1].type", "tensor_infos[1].type", "Q4_0 for rows of 48 elements", "rows of a multiple of 32", ATTN),
    Refusal("a scalar of a block type", with_tensor(g.Tensor(b"s", (), 2, bytes(18))), "tensor_infos[2].type", "tensor_infos[2].type", "Q4_0 for rows of 1 elements", "rows of a multiple of 32", "s"),
    Refusal("an odd tensor offset", changed("tensor_infos[1].offset", "Q", 129), "tensor_infos[1].offset", "tensor_infos[1].offset", "129", "128, the end of the tensors before it padded to 32", ATTN),
    Refusal("overlapping tensors", changed("tensor_infos[1].offset", "Q", 96), "tensor_infos[1].offset", "tensor_infos[1].offset", "96", "128", ATTN),
    Refusal("a gap between tensors", changed("tensor_infos[2].offset", "Q", 288), "tensor_infos[2].offset", "tensor_infos[2].offset", "288", "256", NORM),
    Refusal("a first tensor that is not at 0", changed("tensor_infos[0].offset", "Q", 32), "tensor_infos[0].offset", "tensor_infos[0].offset", "32", "0", EMBD),
    Refusal("an offset of 2^64-32", changed("tensor_infos[1].offset", "Q", (1 << 64) - 32), "tensor_infos[1].offset", "tensor_infos[1].offset", "18446744073709551584", "128", ATTN),
    Refusal("a file that ends in the infos", cut("tensor_infos[2].dims[0]", 4), "tensor_infos[2].dims[0]", "tensor_infos[2].dims[0]", "4 bytes before the end", "8 bytes of a u64"),
]  # fmt: skip

DATA = [
    Refusal("the last 4 KB gone", last_4k_gone, "tensor data", "data[3]", "4096 bytes before the end", "8192 bytes of F32", "output.weight"),
    Refusal("the last byte gone", cut("data[2]", 31), "tensor data", "data[2]", "31 bytes before the end", "32 bytes of F32", NORM),
    Refusal("all data gone but the padding", cut("data[0]"), "tensor data", "data[0]", "0 bytes before the end", "128 bytes of F32", EMBD),
    Refusal("a file that ends behind the infos", cut("infos_end"), "data section", "infos_end", "a file of ", "data from byte "),
    Refusal("an alignment beyond the file", changed("kv[1]", "I", 1 << 31), "tensor_infos[1].offset", "tensor_infos[1].offset", "128", "2147483648", ATTN),
]  # fmt: skip


@pytest.mark.parametrize("case", [*HEADER, *METADATA, *TENSOR_INFOS, *DATA], ids=lambda case: case.fault)
def test_a_malformed_file_is_refused_where_it_is_wrong(tmp_path: Path, case: Refusal) -> None:
    laid = case.make()
    path = laid.write(tmp_path / "bad.gguf")
    with pytest.raises(BadInput) as caught:
        open_checkpoint(path)
    error = caught.value
    assert error.file == str(path)
    assert error.field == case.field
    assert error.offset == (case.at if isinstance(case.at, int) else laid.at[case.at])
    assert str(error.got).startswith(case.got)
    assert error.wanted.startswith(case.wanted)
    assert error.tensor == case.tensor
    assert error.exit_code == 2
    assert "\n" not in str(error)


def test_the_valid_file_that_the_others_are_made_from_is_valid(tmp_path: Path) -> None:
    with open_checkpoint(g.lay().write(tmp_path / "good.gguf")) as checkpoint:
        assert [t.name for t in checkpoint.tensors] == [EMBD, ATTN, NORM]


@pytest.mark.parametrize(
    ("type_id", "name"),
    [(4, "Q4_2"), (5, "Q4_3"), (31, "Q4_0_4_4"), (32, "Q4_0_4_8"), (33, "Q4_0_8_8"), (36, "IQ4_NL_4_4"),
     (37, "IQ4_NL_4_8"), (38, "IQ4_NL_8_8")],
)  # fmt: skip
def test_a_removed_type_is_refused_by_its_name(tmp_path: Path, type_id: int, name: str) -> None:
    laid = changed("tensor_infos[1].type", "I", type_id)()
    with pytest.raises(BadInput) as caught:
        open_checkpoint(laid.write(tmp_path / "old.gguf"))
    assert caught.value.got == f"{type_id}, the removed type {name}"
    assert caught.value.hint is not None
    assert name.rsplit("_", 2)[0][:4] in caught.value.hint


def array_count(index: int, count: int) -> g.Laid:
    laid = g.lay()
    laid.at["count"] = laid.at[f"kv[{index}]"] + 4
    laid.set("count", "Q", count)
    return laid


@pytest.mark.parametrize("count", [1 << 20, 1 << 61, (1 << 64) - 1])
@pytest.mark.parametrize(("index", "key"), [(3, "tokenizer.ggml.tokens"), (4, "tokenizer.ggml.scores")])
def test_an_array_larger_than_the_file_is_refused_at_its_count(
    tmp_path: Path, index: int, key: str, count: int
) -> None:
    laid = array_count(index, count)
    with pytest.raises(BadInput) as caught:
        open_checkpoint(laid.write(tmp_path / "bad.gguf"))
    assert (caught.value.field, caught.value.offset) == (f"kv[{index}] {key} count", laid.at["count"])
    assert str(caught.value.got).startswith(f"{count} items")


def test_a_string_in_an_array_that_leaves_the_file_is_named_by_its_index(tmp_path: Path) -> None:
    laid = g.lay()
    laid.at["second"] = laid.at["kv[3]"] + 12 + 8 + 3
    laid.set("second", "Q", 1 << 50)
    with pytest.raises(BadInput) as caught:
        open_checkpoint(laid.write(tmp_path / "bad.gguf"))
    assert (caught.value.field, caught.value.offset) == ("kv[3] tokenizer.ggml.tokens[1]", laid.at["second"])
    assert caught.value.got == f"a string of {1 << 50} bytes"


def sparse(path: Path, start: bytes, size: int) -> Path:
    """A file of `size` bytes of which only the first exist on the disk; the rest reads as zero."""
    path.write_bytes(start)
    with path.open("r+b") as file:
        file.truncate(size)
    return path


HUGE = 1 << 36
HEAD = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    ("start", "field", "wanted"),
    [
        (HEAD + struct.pack("<QQ", 1 << 30, 0), "tensor_count", "at most 262144 (this reader's limit)"),
        (HEAD + struct.pack("<QQ", 0, 1 << 30), "kv_count", "at most 65536 (this reader's limit)"),
        (
            HEAD + struct.pack("<QQ", 0, 1) + g.text(b"k") + struct.pack("<I", g.STR) + struct.pack("<Q", 1 << 35),
            "kv[0] k",
            "at most 1073741824 bytes (the engine's limit)",
        ),
        (
            HEAD + struct.pack("<QQ", 0, 1) + g.text(b"k") + struct.pack("<I", g.ARR) + g.array(g.U8, 1 << 35, b""),
            "kv[0] k count",
            "at most 1073741824 (the engine's limit)",
        ),
        (
            HEAD + struct.pack("<QQ", 0, 1) + g.text(b"k") + struct.pack("<I", g.ARR) + g.array(g.STR, 1 << 25, b""),
            "kv[0] k",
            "at most 16777216 (this reader's limit)",
        ),
        (
            HEAD + struct.pack("<QQ", 0, 1) + g.text(b"k") + struct.pack("<I", g.ARR)
            + g.array(g.STR, 2, g.text(b"") + struct.pack("<Q", 1 << 31)),
            "kv[0] k[1]",
            "at most 1073741824 bytes (the engine's limit)",
        ),
        (HEAD + struct.pack("<QQ", 1 << 18, 0), "tensor_infos[1].name", "a name that occurs once"),
    ],
)  # fmt: skip
def test_a_claim_that_a_huge_file_could_hold_is_refused_by_the_limits(
    tmp_path: Path, start: bytes, field: str, wanted: str
) -> None:
    path = sparse(tmp_path / "huge.gguf", start, HUGE)
    tracemalloc.start()
    try:
        with pytest.raises(BadInput) as caught:
            open_checkpoint(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (caught.value.field, caught.value.wanted) == (field, wanted)
    assert peak < 1 << 20


def test_hostile_counts_allocate_nothing(tmp_path: Path) -> None:
    for label, value in (
        ("tensor_count", 1 << 63),
        ("kv_count", 1 << 60),
        ("kv[0]", 1 << 62),
        ("kv[0].key", 1 << 40),
        ("tensor_infos[0].name", 1 << 62),
        ("tensor_infos[0].dims[0]", 1 << 61),
    ):
        path = changed(label, "Q", value)().write(tmp_path / "bad.gguf")
        tracemalloc.start()
        try:
            with pytest.raises(BadInput):
                open_checkpoint(path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 256 << 10, label


def test_a_message_with_a_hostile_name_stays_on_one_line(tmp_path: Path) -> None:
    name = b"a\x1b[31m\nharness: all is well\xe2\x80\xae"
    laid = g.lay(tensors=[g.Tensor(name, (8,), 99, bytes(32))])
    with pytest.raises(BadInput) as caught:
        open_checkpoint(laid.write(tmp_path / "bad.gguf"))
    message = str(caught.value)
    assert message.isprintable()
    assert "tensor_infos[0].type" in message
