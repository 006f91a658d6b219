"""Small checkpoints and the command line, as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.containers.gguf_write import TensorData, write_gguf
from harness.demo import resolve_checkpoint
from kernels.units import encoded_bytes, unit

HARNESS = Path(sys.executable).parent / "harness"


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        return json.loads(self.out)


def run_harness(*arguments: object, timeout: float = 300, **environment: str) -> Ran:
    done = subprocess.run(
        [str(HARNESS), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def quantized_tensor(name: str, encoding: str, shape: tuple[int, ...], seed: int) -> TensorData:
    """Random blocks with ordinary scales."""
    found = unit(encoding)
    rng = np.random.default_rng(seed)
    blocks = rng.integers(
        0, 256, (encoded_bytes(found, shape) // found.block_bytes, found.block_bytes), np.uint8
    )
    for field in found.fields:
        if field.type == "f16":
            scales = rng.uniform(0.01, 2.0, len(blocks)).astype("<f2")
            blocks[:, field.offset : field.offset + 2] = scales[:, None].view(np.uint8)
    return TensorData(name, found.container_ids["gguf"], shape, blocks)


@pytest.fixture(scope="session")
def small_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four Q4_1 tensors, two of them of one shape, and an F32 one."""
    path = tmp_path_factory.mktemp("checkpoint") / "small.gguf"
    norm = np.random.default_rng(9).standard_normal(64).astype("<f4")
    tensors = [
        quantized_tensor("blk.0.ffn_up.weight", "ggml.q4_1", (8, 64), 1),
        quantized_tensor("blk.1.ffn_up.weight", "ggml.q4_1", (8, 64), 2),
        quantized_tensor("blk.2.ffn_up.weight", "ggml.q4_1", (8, 96), 3),
        quantized_tensor("blk.3.ffn_up.weight", "ggml.q4_1", (8, 32), 4),
    ]
    write_gguf(path, {"general.architecture": "llama"}, [*tensors, TensorData("norm.weight", 0, (64,), norm)])
    return path


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real checkpoint, fetched into the cache on first use."""
    return resolve_checkpoint("demo:smollm2", offline=False, tell=print)
