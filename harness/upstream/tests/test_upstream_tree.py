"""A tree is read and never unpacked, and what is broken or foreign in it is refused by name."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from harness.errors import BadInput, Unavailable, UsageProblem
from harness.upstream import tree as trees
from harness.upstream.tests.trees import AWQ, GPTQ, write_tar, write_tree, write_zip
from harness.upstream.tree import Tree, read_tree

FILES = {AWQ: "x = 1\n", "vllm/scales.py": "y = 2\n", "README.md": "no Python\n"}


def read(source: Path) -> Tree:
    return read_tree(source, lambda name: name.endswith(".py"), [AWQ, GPTQ])


@pytest.mark.parametrize("kind", ["directory", "tar.gz", "tgz", "zip", "whl"])
def test_no_kind_of_tree_reads_otherwise_than_another(kind: str, tmp_path: Path):
    inside = {f"vllm-1.0/{name}": text for name, text in FILES.items()}
    path = tmp_path / f"vllm-1.0.{kind}"
    if kind == "directory":
        write_tree(path, inside)
    elif kind in ("zip", "whl"):
        write_zip(path, inside)
    else:
        write_tar(path, inside)
    before = sorted(tmp_path.rglob("*"))
    found = read(path)
    assert found.prefix == "vllm-1.0/"
    assert found.files == {AWQ: b"x = 1\n", "vllm/scales.py": b"y = 2\n"}
    assert sorted(tmp_path.rglob("*")) == before


def test_a_copy_of_the_tests_elsewhere_does_not_move_the_root(tmp_path: Path):
    write_tree(tmp_path, {AWQ: "", GPTQ: "", f"old/{AWQ}": ""})
    assert read(tmp_path).prefix == ""


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil.py", "a/../../evil.py", "a\\..\\evil.py"])
@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_a_member_that_climbs_out_is_refused(name: str, write, tmp_path: Path):
    path = write(tmp_path / ("a.zip" if write is write_zip else "a.tar.gz"), {AWQ: "", name: "x = 1\n"})
    with pytest.raises(BadInput, match="inside the archive"):
        read(path)


def test_a_link_out_of_the_tree_is_not_followed(tmp_path: Path):
    secret = tmp_path / "secret.py"
    secret.write_text("key = 1\n")
    root = write_tree(tmp_path / "tree", {AWQ: ""})
    (root / "tests" / "linked.py").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path)
    assert set(read(root).files) == {AWQ}


@pytest.mark.parametrize("name", ["cut.tar.gz", "cut.zip", "cut.whl"])
def test_a_truncated_archive_is_no_traceback(name: str, tmp_path: Path):
    write = write_tar if name.endswith("gz") else write_zip
    path = write(
        tmp_path / name, {AWQ: "x = 1\n" * 4000, GPTQ: "".join(f"y{i} = {i}\n" for i in range(4000))}
    )
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(BadInput) as caught:
        read(path)
    assert caught.value.exit_code == 2


def test_a_tree_without_the_tests_is_not_called_one_that_lost_them(tmp_path: Path):
    path = write_zip(tmp_path / "vllm.whl", {"vllm/__init__.py": ""})
    with pytest.raises(Unavailable, match="none of the files of the inventory") as caught:
        read(path)
    assert caught.value.exit_code == 3


def test_what_is_no_tree_is_bad_usage(tmp_path: Path):
    text = tmp_path / "notes.txt"
    text.write_text("")
    for path, words in ((tmp_path / "none", "No such file"), (text, "wanted a folder")):
        with pytest.raises(UsageProblem, match=words):
            read(path)


def test_a_file_that_is_too_large_is_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trees, "MOST_BYTES_A_FILE", 10)
    found = read(write_tree(tmp_path, {AWQ: "x = 1\n", GPTQ: "y = 1\n" * 9}))
    assert found.unread == (GPTQ,)
    assert set(found.files) == {AWQ}


@pytest.mark.parametrize(("limit", "value"), [("MOST_MEMBERS", 1), ("MOST_BYTES", 8), ("MOST_UNPACKED", 8)])
def test_an_archive_beyond_the_bounds_is_refused(limit: str, value: int, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(trees, limit, value)
    with pytest.raises(BadInput, match="more than"):
        read(write_tar(tmp_path / "a.tgz", {AWQ: "x = 1\n", GPTQ: "y = 1\n"}))


def _whole_tar(path: Path) -> bytes:
    with tarfile.open(path, "w") as archive:
        for name in (AWQ, GPTQ):
            header = tarfile.TarInfo(f"vllm-1.0/{name}")
            header.size = 6
            archive.addfile(header, io.BytesIO(b"x = 1\n"))
    return path.read_bytes()


@pytest.mark.parametrize("fault", ["header", "cut"])
def test_a_damaged_member_ends_the_archive_in_silence(fault: str, tmp_path: Path):
    path = tmp_path / "vllm-1.0.tar"
    whole = _whole_tar(path)
    assert len(read(path).files) == 2
    path.write_bytes(whole[:1024] if fault == "cut" else whole[:1030] + b"\xff" + whole[1031:])
    with pytest.raises(BadInput, match="tar archive"):
        read(path)
