"""Paths that are not a checkpoint file: each is refused by what it is, never by a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.containers import open_checkpoint
from harness.containers.tests import gguf_bytes as g
from harness.errors import BadInput, UsageProblem


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - only the number of entries is wanted


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"nothing\.gguf: there is no such file"):
        open_checkpoint(tmp_path / "nothing.gguf")


def test_a_directory_is_answered_with_the_checkpoints_in_it(tmp_path: Path) -> None:
    g.lay().write(tmp_path / "inside.gguf")
    with pytest.raises(UsageProblem, match=r"is a directory, not a checkpoint file; it holds inside\.gguf"):
        open_checkpoint(tmp_path)


def test_a_file_without_permission_is_a_usage_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = g.lay().write(tmp_path / "locked.gguf")

    # The super-user may read any file, so the refusal of the system is played.
    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageProblem, match=r"locked\.gguf: permission denied"):
        open_checkpoint(path)


def test_a_named_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(UsageProblem, match="not a regular file"):
        open_checkpoint(tmp_path / "pipe.gguf")


def test_a_device_is_refused_instead_of_read_for_ever() -> None:
    with pytest.raises(UsageProblem, match="not a regular file"):
        open_checkpoint("/dev/zero")


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_a_path_that_no_file_can_have_is_a_usage_problem(path: str) -> None:
    with pytest.raises(UsageProblem, match="cannot be opened"):
        open_checkpoint(path)


def test_a_link_that_leads_in_a_circle_is_a_usage_problem(tmp_path: Path) -> None:
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "loop.gguf")
    with pytest.raises(UsageProblem, match="cannot be opened"):
        open_checkpoint(tmp_path / "loop.gguf")


HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()


@pytest.mark.parametrize(
    ("start", "meaning"),
    [
        (len(HEADER).to_bytes(8, "little") + HEADER + bytes(4), "a safetensors file"),
        (b"PK\x03\x04" + bytes(60), "a zip archive"),
        (b"\x80\x02}q\x00.", "a Python pickle"),
        (b"lmgg" + bytes(60), "a ggml file from before GGUF"),
        (b"FUGG" + bytes(60), "the letters GGUF backwards"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a git-lfs pointer"),
        (b"<!DOCTYPE html><html>", "an HTML page"),
        (b"Once upon a time\n" * 40, "a text file"),
        ("é".encode() * 400 + b"!", "a text file"),
        (bytes(4096), "nothing but zero bytes"),
        (b"\x01\x02\x03\xff\xfe", "b'\\x01\\x02\\x03\\xff\\xfe'"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_what_it_is(tmp_path: Path, start: bytes, meaning: str) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(start)
    with pytest.raises(BadInput) as caught:
        open_checkpoint(path)
    assert (caught.value.field, caught.value.offset) == ("magic", 0)
    assert meaning in str(caught.value.got)
    assert caught.value.wanted.startswith("GGUF")


def test_a_refused_file_leaves_nothing_open(tmp_path: Path) -> None:
    bad = g.lay(version=99).write(tmp_path / "bad.gguf")
    good = g.lay().write(tmp_path / "good.gguf")
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(BadInput):
            open_checkpoint(bad)
        open_checkpoint(good).close()
    assert open_descriptors() == before
