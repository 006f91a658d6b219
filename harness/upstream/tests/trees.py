"""Small trees of an engine's sources, written by the test that needs them."""

from __future__ import annotations

import io
import tarfile
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path

AWQ = "tests/kernels/quantization/test_awq_triton.py"
GPTQ = "tests/kernels/quantization/test_gptq.py"
"""Paths of the inventory of vLLM, by which a tree's root is found."""


def write_tree(folder: Path, files: Mapping[str, str]) -> Path:
    """A directory with `files`, path and dedented text."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def write_tar(path: Path, files: Mapping[str, str]) -> Path:
    """A `.tar.gz` with `files`, names as they are."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            data = textwrap.dedent(text).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_zip(path: Path, files: Mapping[str, str]) -> Path:
    """A `.zip` or `.whl` with `files`, names as they are."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, textwrap.dedent(text))
    return path
