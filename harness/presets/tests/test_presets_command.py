"""`python -m harness.presets`: its table, its JSON and its exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.containers.gguf_write import TensorData, write_gguf
from harness.presets.__main__ import run


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    keys = {"general.architecture": "llama", "llama.block_count": 2, "llama.attention.head_count": 2}
    names = ("token_embd.weight", "blk.0.attn_v.weight", "blk.1.ffn_up.weight")
    tensors = [TensorData(name, 1, (2, 256), np.zeros(1024, np.uint8)) for name in names]
    write_gguf(tmp_path / "model.gguf", keys, tensors)
    return tmp_path / "model.gguf"


def ask(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["harness.presets", *map(str, words)])
    return run()


def test_the_json_lacks_a_tensor_or_its_reason(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(monkeypatch, checkpoint, "Q4_K_S", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "harness-presets/1"
    assert [tensor["name"] for tensor in document["tensors"]] == [
        "token_embd.weight",
        "blk.0.attn_v.weight",
        "blk.1.ffn_up.weight",
    ]
    assert [tensor["encoding"] for tensor in document["tensors"]] == ["ggml.q6_k", "ggml.q5_k", "ggml.q4_k"]
    assert all(tensor["because"] for tensor in document["tensors"])


def test_the_table_lacks_a_tensor(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(monkeypatch, checkpoint, "Q8_0", "--tensor-type", "attn_v=q5_1") == 0
    out = capsys.readouterr().out
    assert "blk.1.ffn_up.weight" in out
    assert "Q8_0: 2 ggml.q8_0, 1 ggml.q5_1" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Q9_9"], "no preset is called Q9_9"),
        (["IQ1_S"], "without an importance matrix"),
        (["Q8_0", "--tensor-type", "attn_v"], "PATTERN=ENCODING"),
        ([], "PRESET"),
    ],
)
def test_bad_usage_is_not_exit_2(
    checkpoint: Path,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask(monkeypatch, checkpoint, *words) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_none_ends_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(monkeypatch, tmp_path / "absent.gguf", "Q8_0") == 2
    assert "absent.gguf" in capsys.readouterr().err
