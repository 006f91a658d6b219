"""What is read from a file for the selection: counts, heads of layer 0, shapes as ggml counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.containers import open_checkpoint
from harness.containers.gguf_write import TensorData, Typed, write_gguf
from harness.errors import BadInput
from harness.presets import Model, Tensor, read_model

COUNTS = {"block_count": 4, "attention.head_count": 8}


def read(path: Path, architecture: str, keys: dict[str, Any]) -> Model:
    metadata = {f"{architecture}.{name}": value for name, value in keys.items()}
    tensor = TensorData("blk.0.attn_q.weight", 1, (2, 4), np.zeros(16, np.uint8))
    write_gguf(path / "model.gguf", {"general.architecture": architecture, **metadata}, [tensor])
    with open_checkpoint(path / "model.gguf") as checkpoint:
        return read_model(checkpoint)


def test_a_model_without_key_value_heads_shares_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, "llama", COUNTS)
    assert (found.layers, found.heads, found.kv_heads, found.experts) == (4, 8, 8, 0)
    assert found.queries_per_kv_head == 1
    assert found.tensors == (Tensor("blk.0.attn_q.weight", (2, 4), "ggml.f16"),)


def test_heads_of_another_layer_than_the_first_decide(tmp_path: Path) -> None:
    heads = {"attention.head_count_kv": Typed("u32", [0, 2, 2, 2])}
    found = read(tmp_path, "nemotron_h", COUNTS | heads)
    assert (found.kv_heads, found.queries_per_kv_head) == (0, 0)


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"attention.head_count": 8}, "llama.block_count"),
        (COUNTS | {"block_count": -4}, "llama.block_count"),
        (COUNTS | {"block_count": "four"}, "llama.block_count"),
        (COUNTS | {"attention.head_count_kv": Typed("u32", [2, 2])}, "llama.attention.head_count_kv"),
        (COUNTS | {"attention.head_count_kv": Typed("str", ["a"] * 4)}, "llama.attention.head_count_kv"),
        (COUNTS | {"attention.head_count": "eight"}, "llama.attention.head_count"),
        (COUNTS | {"expert_count": 2.5}, "llama.expert_count"),
    ],
)
def test_a_broken_count_ends_in_a_traceback(tmp_path: Path, keys: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as error:
        read(tmp_path, "llama", keys)
    assert error.value.field == field


def test_a_file_without_an_architecture_is_read(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", {}, [])
    with (
        open_checkpoint(tmp_path / "model.gguf") as checkpoint,
        pytest.raises(BadInput, match=r"general\.architecture"),
    ):
        read_model(checkpoint)


@pytest.mark.parametrize(
    ("architecture", "keys", "layers"),
    [
        ("nanbeige", {"num_loops": 3}, 12),
        ("nanbeige", {}, 4),
        ("graniteswitch", {}, 5),
        ("llama", {"num_loops": 3}, 4),
    ],
)
def test_layers_that_only_the_engine_counts_are_missed(
    tmp_path: Path, architecture: str, keys: dict[str, Any], layers: int
) -> None:
    assert read(tmp_path, architecture, COUNTS | keys).layers == layers


@pytest.mark.parametrize(
    ("architecture", "keys", "large"),
    [
        ("llama", {"block_count": 80, "attention.head_count_kv": 1}, True),
        ("llama", {"block_count": 80}, False),
        ("llama", {"block_count": 80, "attention.head_count_kv": 1, "expert_count": 8}, False),
        ("qwen2", {"block_count": 80}, True),
        ("qwen2", {"block_count": 81, "nextn_predict_layers": 1}, True),
        ("qwen3", {"block_count": 80, "attention.head_count_kv": 1}, False),
        ("jais2", {"block_count": 68}, True),
    ],
)
def test_a_model_of_70b_is_known_by_another_thing_than_its_layers(
    tmp_path: Path, architecture: str, keys: dict[str, Any], large: bool
) -> None:
    assert read(tmp_path, architecture, COUNTS | keys).is_70b is large


@pytest.mark.parametrize(
    ("shape", "dimensions", "stacked"),
    [
        ((), 1, False),
        ((512,), 1, False),
        ((1, 512), 1, False),
        ((2, 512), 2, False),
        ((2, 1), 2, False),
        ((2, 1, 512), 3, True),
        ((1, 2, 512), 2, False),
        ((3, 1, 1, 512), 4, False),
    ],
)
def test_leading_ones_count_as_dimensions(shape: tuple[int, ...], dimensions: int, stacked: bool) -> None:
    tensor = Tensor("a", shape)
    assert (tensor.dimensions, tensor.stacked) == (dimensions, stacked)
