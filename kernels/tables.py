"""The lookup tables of a dialect: facts kept as data files, each with its origin and its hash, checked when loaded."""

from __future__ import annotations

import hashlib
import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import BadInput
from harness.rows.strict_yaml import read_mapping
from kernels.units import Unit


@cache
def tables_of(found: Unit) -> dict[str, NDArray[Any]]:
    """The tables that the decode of a unit takes, read-only, by keyword. Raises BadInput when a file is not as stated."""
    folder = found.path.parent / "tables"
    return {keyword: load_table(folder, name) for keyword, name in found.tables.items()}


@cache
def load_table(folder: Path, name: str) -> NDArray[Any]:
    """The table `name` of `folder`, whose `tables.yaml` states its shape, dtype and sha256."""
    stated = _stated(folder).get(name)
    if stated is None:
        raise BadInput(
            file=folder / "tables.yaml", field=name, got="nothing", wanted="an entry for the table"
        )
    file = folder / f"{name}.npy"
    if not file.is_file():
        raise BadInput(file=file, field="the file", got="nothing", wanted="the table")
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != stated["sha256"]:
        raise BadInput(file=file, field="sha256", got=digest, wanted=stated["sha256"])
    table: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    if list(table.shape) != stated["shape"] or table.dtype.name != stated["dtype"]:
        raise BadInput(
            file=file,
            field="shape and dtype",
            got=f"{list(table.shape)} {table.dtype.name}",
            wanted=f"{stated['shape']} {stated['dtype']}",
        )
    table.flags.writeable = False
    return table


@cache
def _stated(folder: Path) -> dict[str, dict[str, Any]]:
    return read_mapping(folder / "tables.yaml")
