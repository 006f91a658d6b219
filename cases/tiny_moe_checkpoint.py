"""`demo:tiny-moe`: the model of `cases/tiny_checkpoint.py` with four experts a layer, stacked in tensors of three dimensions."""

from __future__ import annotations

from pathlib import Path

from cases.tiny_checkpoint import Shape, key, write_model

__all__ = ["key", "write"]


def write(path: Path) -> None:
    """Write the model. The same sources give the same bytes."""
    write_model(path, Shape(experts=4), "tiny-moe")
