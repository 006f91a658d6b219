"""`harness cache`: sizes that are true, and a limit that is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from harness.cache import parse_size, shown_size
from harness.cli import cli
from harness.errors import UsageProblem
from oracles.memo import Memo
from oracles.pool import Answer


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def harness(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["cache", *arguments], standalone_mode=False)


def remember(count: int) -> None:
    for number in range(count):
        values = np.full(8192, number, np.float32)
        Memo().put(f"{number:064x}", Answer({}, {"values": values}, 1.0))


def test_an_empty_cache_is_an_error(cache: Path) -> None:
    result = harness("info")
    assert (result.return_value, result.output) == (0, f"nothing in {cache}\n")
    assert json.loads(harness("gc", "--json").output)["left"] == {"answers": 0, "bytes": 0}
    assert not cache.exists()


def test_a_part_of_the_cache_is_not_counted(cache: Path) -> None:
    remember(3)
    (cache / "checkpoints").mkdir()
    (cache / "checkpoints" / "model.gguf").write_bytes(bytes(5000))
    document = json.loads(harness("info", "--json").output)
    found = {part["name"]: part for part in document["parts"]}
    assert (found["checkpoints"]["entries"], found["checkpoints"]["bytes"]) == (1, 5000)
    assert found["memo"]["entries"] == 3
    assert 3 * 32768 < found["memo"]["bytes"] < 3 * 32768 + 3000
    assert "3 answers" in harness("info").output


@pytest.mark.parametrize(("limit", "left"), [("0", 0), ("70k", 2), ("1G", 3)])
def test_more_than_the_limit_is_left(limit: str, left: int, cache: Path) -> None:
    remember(3)
    document = json.loads(harness("gc", "--limit", limit, "--json").output)
    assert (document["removed"]["answers"], document["left"]["answers"]) == (3 - left, left)
    assert document["left"]["bytes"] <= parse_size(limit)


def test_a_size_that_is_none_removes_everything(cache: Path) -> None:
    remember(1)
    for words in ("", "much", "-1", "1X", "1e9"):
        with pytest.raises(UsageProblem, match="is no size"):
            parse_size(words)
    assert isinstance(harness("gc", "--limit", "much").exception, UsageProblem)
    assert Memo().usage().answers == 1


def test_a_size_is_shown_in_another_unit_than_it_is_read() -> None:
    assert [parse_size(words) for words in ("12", "2k", "1.5M", "4G", "4 GiB", "1T")] == [
        *(12, 2048, 1536 * 1024),
        *(4 << 30, 4 << 30, 1 << 40),
    ]
    assert [shown_size(size) for size in (12, 2048, 4 << 30)] == ["12 B", "2.0 KiB", "4.0 GiB"]
