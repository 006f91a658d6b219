"""Metadata of whole models, read from their headers alone: upstream's facts on its models, and a real file, twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.ggml.type_selection_models import shapes, write_model
from harness.containers import open_checkpoint
from harness.demo import resolve_checkpoint
from harness.presets.model import read_model

# name, architecture, layers, heads, key-value heads, experts, columns of the embedding
UPSTREAM = [
    ("qwen3-0.6b", "qwen3", 28, 16, 8, 0, 1024),
    ("glm-4.6v", "glm4moe", 46, 96, 8, 128, 4096),
    ("step-3.5-flash", "step35", 45, 64, 8, 288, 4096),
]


@pytest.mark.parametrize(
    ("name", "architecture", "layers", "heads", "kv_heads", "experts", "columns"), UPSTREAM
)
def test_a_header_is_read_as_another_model(
    name: str,
    architecture: str,
    layers: int,
    heads: int,
    kv_heads: int,
    experts: int,
    columns: int,
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, shapes()[name])
    with open_checkpoint(path) as checkpoint:
        found = read_model(checkpoint)
        assert checkpoint.value(f"{architecture}.embedding_length") == columns
    assert (found.architecture, found.layers, found.heads, found.kv_heads, found.experts) == (
        architecture,
        layers,
        heads,
        kv_heads,
        experts,
    )
    by_name = {tensor.name: tensor for tensor in found.tensors}
    assert "blk.0.attn_q.weight" in by_name
    assert by_name["token_embd.weight"].columns == columns
    assert by_name["token_embd.weight"].dimensions == 2


def test_a_real_file_is_read_otherwise_the_second_time() -> None:
    """The second time from the cache: nothing may be fetched."""
    first = resolve_checkpoint("demo:smollm2", offline=False, tell=print)
    second = resolve_checkpoint("demo:smollm2", offline=True, tell=pytest.fail)
    models = []
    for path in (first, second):
        with open_checkpoint(path) as checkpoint:
            models.append(read_model(checkpoint))
            assert checkpoint.value("llama.vocab_size") == 49152
            assert checkpoint.value("llama.embedding_length") == 576
    one, other = models
    assert one == other
    assert (one.architecture, one.layers, one.heads, one.kv_heads, one.experts) == ("llama", 30, 9, 3, 0)
    assert len(one.tensors) == 272
    by_name = {tensor.name: tensor for tensor in one.tensors}
    assert by_name["token_embd.weight"].shape == (49152, 576)
    assert {"blk.0.attn_q.weight", "output_norm.weight"} <= by_name.keys()
