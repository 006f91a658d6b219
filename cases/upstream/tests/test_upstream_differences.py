"""The places where equal names mean different bytes: all there, each with rows that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.upstream.differences import PATH, load_differences
from harness.errors import BadInput
from harness.rows.load import load_rows


def test_none_of_the_33_differences_is_lost():
    assert len(load_differences()) == 33


def test_a_difference_touches_rows_that_exist_and_has_two_sides():
    rows = load_rows()
    for entry in load_differences().values():
        assert set(entry.rows) <= set(rows), entry.id
        assert len(entry.facts) >= 2, entry.id


def test_a_difference_twice_is_refused(tmp_path: Path):
    path = tmp_path / "differences.yaml"
    path.write_text(PATH.read_text(encoding="utf-8").replace("id: nvfp4-global", "id: nvfp4-nibbles"))
    with pytest.raises(BadInput, match="every id once"):
        load_differences(path)


def test_a_difference_without_a_source_is_refused(tmp_path: Path):
    path = tmp_path / "differences.yaml"
    text = (
        "differences:\n  - {id: a, topic: t, facts: {x: y}, consequence: c, sources: [], rows: [QUANT-AWQ]}\n"
    )
    path.write_text(text)
    with pytest.raises(BadInput, match="sources"):
        load_differences(path)
