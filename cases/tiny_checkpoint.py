"""Small Llama models with random weights, whose widths every block of 256 divides: a quantizer need not fall back.

`demo:tiny` is dense; `demo:tiny-moe` (`cases/tiny_moe_checkpoint.py`) holds its experts in tensors of three dimensions.
The tokenizer is "none", which llama.cpp loads. All float32, and the same bytes on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.containers.gguf_write import TensorData, Typed, write_gguf
from harness.paths import REPOSITORY

SEED = 20261130
F32 = 0
SOURCES = ("cases/tiny_checkpoint.py", "cases/tiny_moe_checkpoint.py", "harness/containers/gguf_write.py")


@dataclass(frozen=True)
class Shape:
    """Sizes of a model. `experts` is 0 for a dense one, of which each token uses two otherwise."""

    hidden: int = 256
    feed_forward: int = 512
    layers: int = 2
    vocabulary: int = 512
    heads: int = 4
    kv_heads: int = 2
    experts: int = 0

    @property
    def head(self) -> int:
        return self.hidden // self.heads


def key() -> str:
    """Digest of all that the files are made from: it changes when a file would."""
    return hashlib.sha256(b"\0".join((REPOSITORY / name).read_bytes() for name in SOURCES)).hexdigest()


def write(path: Path) -> None:
    """Write the dense model. The same sources give the same bytes."""
    write_model(path, Shape(), "tiny")


def write_model(path: Path, shape: Shape, name: str) -> None:
    """Write a model of these sizes."""
    write_gguf(path, metadata(shape, name), list(tensors(shape)))


def metadata(shape: Shape, name: str) -> dict[str, object]:
    """What llama.cpp asks of a Llama: the keys of a checkpoint without a tokenizer."""
    keys: dict[str, object] = {
        "general.architecture": "llama",
        "general.name": name,
        "general.file_type": F32,
        "llama.context_length": 256,
        "llama.embedding_length": shape.hidden,
        "llama.block_count": shape.layers,
        "llama.feed_forward_length": shape.feed_forward,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": Typed("f32", 1e-5),
        "llama.rope.dimension_count": shape.head,
        "llama.vocab_size": shape.vocabulary,
        "tokenizer.ggml.model": "none",
    }
    if shape.experts:
        keys |= {"llama.expert_count": shape.experts, "llama.expert_used_count": 2}
    return keys


def tensors(shape: Shape) -> Iterator[TensorData]:
    """The tensors in the order of the layers, each drawn from the seed and its own name."""
    hidden, ff, kv = shape.hidden, shape.feed_forward, shape.kv_heads * shape.head
    yield _matrix("token_embd.weight", (shape.vocabulary, hidden))
    for layer in range(shape.layers):
        at = f"blk.{layer}"
        yield _norm(f"{at}.attn_norm.weight", hidden)
        yield _matrix(f"{at}.attn_q.weight", (hidden, hidden))
        yield _matrix(f"{at}.attn_k.weight", (kv, hidden))
        yield _matrix(f"{at}.attn_v.weight", (kv, hidden))
        yield _matrix(f"{at}.attn_output.weight", (hidden, hidden))
        yield _norm(f"{at}.ffn_norm.weight", hidden)
        experts, suffix = ((shape.experts,), "_exps") if shape.experts else ((), "")
        if experts:
            yield _matrix(f"{at}.ffn_gate_inp.weight", (shape.experts, hidden))
        yield _matrix(f"{at}.ffn_gate{suffix}.weight", (*experts, ff, hidden))
        yield _matrix(f"{at}.ffn_up{suffix}.weight", (*experts, ff, hidden))
        yield _matrix(f"{at}.ffn_down{suffix}.weight", (*experts, hidden, ff))
    yield _norm("output_norm.weight", hidden)
    yield _matrix("output.weight", (shape.vocabulary, hidden))


def _matrix(name: str, shape: tuple[int, ...]) -> TensorData:
    """Weights like a normal distribution of deviation 0.07: the sum of four numbers of 16 bits, which is exact."""
    sums = _raw(name, int(np.prod(shape))).view("<u2").reshape(-1, 4).sum(axis=1, dtype=np.uint32)
    values = (sums.astype(np.float32) - np.float32(2 * 65536)) * np.float32(2.0**-19)
    return TensorData(name, F32, shape, values.astype("<f4"))


def _norm(name: str, size: int) -> TensorData:
    """Factors from 0.75 to 1.25, in steps of 1/512."""
    steps = (_raw(name, size) >> np.uint64(56)).astype(np.float32)
    return TensorData(name, F32, (size,), (np.float32(0.75) + steps / np.float32(512)).astype("<f4"))


def _raw(name: str, count: int) -> npt.NDArray[np.uint64]:
    """Bits of a generator whose stream numpy promises to keep, uint64 [count], little-endian."""
    seed = int.from_bytes(hashlib.sha256(f"{SEED} {name}".encode()).digest()[:8], "little")
    return np.random.PCG64(seed).random_raw(count).astype("<u8")
