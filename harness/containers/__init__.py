"""Checkpoint containers: a file becomes named tensors of encoded bytes, with nothing loaded that is not asked for."""

from __future__ import annotations

from pathlib import Path

from harness.containers.checkpoint import ByteOrder, Checkpoint, MetadataValue, TensorInfo
from harness.containers.files import MappedFile
from harness.containers.gguf import open_gguf

__all__ = ["ByteOrder", "Checkpoint", "MetadataValue", "TensorInfo", "open_checkpoint"]


def open_checkpoint(path: str | Path) -> Checkpoint:
    """The checkpoint at `path`: its first file when it is split. Use it in a `with` statement.

    Raises UsageProblem when there is no file that can be read, BadInput (file, field, offset, got, wanted) when the
    file is not what it claims.
    """
    return open_gguf(MappedFile(Path(path)))
