"""Any damaged file either opens consistently or raises BadInput: never another exception."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.containers import Checkpoint, open_checkpoint
from harness.containers.tests import gguf_bytes as g
from harness.errors import BadInput

VALID = bytes(g.lay().data)
BIG = bytes(g.lay([(b"general.architecture", g.STR, g.text(b"llama", ">"))], order=">").data)
FIELDS = sorted(offset for label, offset in g.lay().at.items() if not label.startswith("data"))
INTERESTING = [0, 1, 2, 4, 8, 9, 13, 31, 32, 99, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
               1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]  # fmt: skip


def opened(path: Path) -> Checkpoint | BadInput:
    try:
        return open_checkpoint(path)
    except BadInput as error:
        return error


def check(folder: Path, data: bytes) -> None:
    """Opens `data` and, when that works, uses everything that was promised."""
    path = folder / "fuzzed.gguf"
    path.write_bytes(data)
    checkpoint = opened(path)
    if isinstance(checkpoint, BadInput):
        assert checkpoint.file == str(path)
        assert str(checkpoint).isprintable()
        # The data of a tensor can begin behind the end of a cut file; every other field named is one that was read.
        assert (
            checkpoint.offset is None or checkpoint.field == "tensor data" or checkpoint.offset <= len(data)
        )
        return
    with checkpoint:
        for entry in checkpoint.metadata.values():
            entry.value()
        end = 0
        for info in checkpoint.tensors:
            view = checkpoint.tensor_bytes(info.name)
            assert view.size == info.nbytes
            assert view.tobytes() == data[info.offset : info.offset + info.nbytes]
            assert info.offset >= end
            end = info.offset + info.nbytes
        assert end <= len(data)


def test_a_file_cut_anywhere_is_refused_or_consistent(tmp_path: Path) -> None:
    for length in range(1, len(VALID)):
        check(tmp_path, VALID[:length])


def test_an_interesting_number_in_any_field_is_refused_or_consistent(tmp_path: Path) -> None:
    for offset in FIELDS:
        for value in INTERESTING:
            for width in (4, 8):
                number = (value % (1 << 8 * width)).to_bytes(width, "little")
                check(tmp_path, VALID[:offset] + number + VALID[offset + width :])


_QUIET = settings(
    max_examples=1500,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@_QUIET
@given(
    base=st.sampled_from([VALID, BIG]),
    edits=st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.none() | st.integers(1, len(VALID)),
    insert=st.none() | st.tuples(st.integers(0, len(VALID)), st.binary(max_size=16)),
)
def test_random_damage_is_refused_or_consistent(
    tmp_path: Path,
    base: bytes,
    edits: list[tuple[int, int]],
    cut: int | None,
    insert: tuple[int, bytes] | None,
) -> None:
    data = bytearray(base)
    for offset, value in edits:
        data[offset % len(data)] = value
    if insert is not None:
        data[insert[0] : insert[0]] = insert[1]
    check(tmp_path, bytes(data[:cut]))


@_QUIET
@given(data=st.binary(min_size=1, max_size=200))
def test_random_bytes_behind_the_magic_are_refused_or_consistent(tmp_path: Path, data: bytes) -> None:
    check(tmp_path, b"GGUF\x03\x00\x00\x00" + data)
