"""A name that is not UTF-8, and a path that is not: every reader of a file says the same of it."""

import os

import numpy as np
import pytest

from harness.containers import open_checkpoint
from harness.containers.gguf_cursor import text_of
from harness.containers.tests import gguf_bytes as g
from harness.ladder.recognize import recognize
from harness.verdicts import Verdict
from oracles import serve

NAMES = (
    *(
        b"plain",
        b"\xc3\xa9",
        b"a\\b",
        b"a\xff",
        rb"a\xff",
        b"a\\\xff",
        rb"a\\xff",
        b"\xed\xb3\xbf",
        b"\xff\\x41",
    ),
    *(rb"\xff\x41", rb"\\xff", b"\\\\\xff", b"\xff\\", rb"\XFF", rb"\xfg"),
)


def test_the_workers_write_a_name_as_our_reader_does():
    rng = np.random.default_rng(5)
    drawn = [rng.choice(np.frombuffer(b"\\x0f\xff\xc3\xa9", np.uint8), 6).tobytes() for _ in range(3000)]
    assert [serve.name_text(name) for name in (*NAMES, *drawn)] == [
        text_of(name) for name in (*NAMES, *drawn)
    ]


def test_two_names_never_become_the_same_text():
    rng = np.random.default_rng(6)
    drawn = {rng.choice(np.frombuffer(b"\\x0f\xff\xc3\xa9", np.uint8), 6).tobytes() for _ in range(20000)}
    names = drawn | set(NAMES)
    assert len({text_of(name) for name in names}) == len(names)
    for name in names:
        text_of(name).encode("utf-8")


@pytest.mark.parametrize("folder", [b"plain", b"not-\xff-utf-8"])
def test_names_and_paths_that_are_not_utf_8_are_recognised_by_every_oracle(real_pool, tmp_path, folder):
    place = tmp_path / os.fsdecode(folder)
    place.mkdir()
    keys = [(b"general.architecture", g.STR, g.text(b"llama")), (b"k\xfe", g.STR, g.text(b"v"))]
    tensors = [g.Tensor(name, (8,), 0, bytes(32)) for name in (b"w\xff", rb"w\xff", b"v\\\xff", b"\xc3\xa9")]
    path = g.lay(keys, tensors).write(place / "x.gguf")
    with open_checkpoint(path) as checkpoint:
        found = recognize(checkpoint, [real_pool.get(name) for name in ("llama_cpp.ops", "formats")])
    assert found.messages == []
    assert found.differences == []
    assert (found.verdict, len(found.readers), found.checked) == (Verdict.PASS, 2, 4)
