"""The house rules of `reference.py` and of the tables."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.errors import BadInput
from harness.paths import KERNELS
from kernels.provider import reference
from kernels.tables import load_table, tables_of
from kernels.units import Unit, load_units

every_unit = pytest.mark.parametrize("found", load_units().values(), ids=lambda found: found.encoding)


def source(found: Unit) -> ast.Module:
    return ast.parse((found.path / "reference.py").read_text(encoding="utf-8"))


@every_unit
def test_a_reference_imports_numpy_alone(found: Unit) -> None:
    imported = set()
    for node in ast.walk(source(found)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported == {"numpy"}


@every_unit
def test_a_decode_stays_readable(found: Unit) -> None:
    functions = [node for node in source(found).body if isinstance(node, ast.FunctionDef)]
    assert "decode" in {function.name for function in functions}
    assert sum(function.end_lineno - function.lineno + 1 for function in functions) <= 40


@every_unit
def test_a_decode_without_out_gives_what_it_gives_with_out(found: Unit) -> None:
    blocks = np.arange(3 * found.block_bytes, dtype=np.uint32).astype(np.uint8).reshape(3, found.block_bytes)
    out = np.full((3, found.block_elems), np.nan, np.float32)
    decode, tables = reference(found).decode, tables_of(found)
    with np.errstate(all="ignore"):
        filled, fresh = decode(blocks, out, **tables), decode(blocks, **tables)
    assert filled is out
    assert fresh.dtype == np.float32
    np.testing.assert_array_equal(fresh.view(np.uint32), out.view(np.uint32))


@every_unit
def test_a_decode_does_not_write_to_its_blocks(found: Unit) -> None:
    blocks = np.full((2, found.block_bytes), 0x35, np.uint8)
    blocks.flags.writeable = False
    with np.errstate(all="ignore"):
        reference(found).decode(blocks, **tables_of(found))
    assert (blocks == 0x35).all()


def tables_copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KERNELS / "ggml" / "tables", tmp_path / "tables"))


def test_a_table_with_one_changed_byte_is_refused(tmp_path: Path) -> None:
    folder = tables_copy(tmp_path)
    file = folder / "iq2xxs_grid.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadInput, match=r"iq2xxs_grid\.npy, field sha256"):
        load_table(folder, "iq2xxs_grid")


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    folder = tables_copy(tmp_path)
    (folder / "ksigns.npy").unlink()
    with pytest.raises(BadInput, match=r"ksigns\.npy"):
        load_table(folder, "ksigns")
    with pytest.raises(BadInput, match="iq9_grid"):
        load_table(folder, "iq9_grid")


def test_every_table_is_listed_used_and_says_where_it_is_from() -> None:
    folder = KERNELS / "ggml" / "tables"
    of_ggml = (found for found in load_units().values() if found.dialect == "ggml")
    used = {name for found in of_ggml for name in found.tables.values()}
    assert {file.stem for file in folder.glob("*.npy")} == used
    for name in used:
        assert not load_table(folder, name).flags.writeable
