"""llama.cpp's test-quantize-stats: the statistics of a round trip through each quantizer, over layers of a real model.

Upstream prints them for a float model and asserts nothing. Here the layers are those of a demo checkpoint, decoded to
float32, and the statistics of our quantizer have to be those of the engine's, to the last bit.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cases.ggml.family import decodes
from cases.ggml.quantize_fns import WEIGHTS
from harness.containers import open_checkpoint
from harness.demo import resolve_checkpoint
from harness.evidence.case import Ancestor
from kernels.provider import dequantize

SOURCE = "tests/test-quantize-stats.cpp"
CHECKPOINT = "demo:smollm2"
LAYERS = ("blk.0.attn_k.weight", "blk.15.ffn_down.weight", "blk.29.attn_q.weight")
"""Three kinds of weights, at the beginning, in the middle and at the end of the model."""

ROW = 4096
"""Values that are quantized as one row: a layer is taken as one run of values, as upstream takes it in pieces, so that
blocks of 256 fit wherever its rows are 576 wide."""

BUCKETS, RANGE = 150, 0.03
"""Upstream's histogram of the absolute error; what is larger falls into the last bucket."""

NAMES = ("rmse", "max", "95th percentile", "median")
"""The first elements of `statistics`; the buckets of the histogram follow."""


def statistics(values: npt.NDArray[np.float32], decoded: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """`NAMES`, then the counts of the histogram: float64 [4 + BUCKETS], of two float32 arrays of one shape."""
    error = np.abs((values - decoded).astype(np.float64)).reshape(-1)
    buckets = np.minimum(np.floor(error / RANGE * BUCKETS), BUCKETS - 1).astype(np.int64)
    counts = np.bincount(buckets, minlength=BUCKETS).astype(np.float64)
    rmse = np.sqrt(np.square(error).sum() / error.size)
    return np.array([rmse, error.max(), quantile(counts, 0.95), quantile(counts, 0.5), *counts])


def quantile(counts: npt.NDArray[np.float64], share: float) -> float:
    """The upper edge of the bucket in which that share of all errors is reached."""
    reached = np.flatnonzero(np.cumsum(counts) >= counts.sum() * share)
    return float((reached[0] + 1) * RANGE / BUCKETS)


@functools.cache
def layer(name: str) -> npt.NDArray[np.float32]:
    """A layer of the checkpoint as float32 [n, ROW], the checkpoint fetched at the first use."""
    with open_checkpoint(resolve_checkpoint(CHECKPOINT, offline=False, tell=print)) as checkpoint:
        info = checkpoint.tensor(name)
        data = np.array(checkpoint.tensor_bytes(name))
    assert info.encoding is not None
    return dequantize(info.encoding, data, info.shape).reshape(-1, ROW)


_FILES = (Path(__file__), Path(__file__).parent / "test_quantize_stats.py")

STATS = decodes(
    "ggml.quantize_stats",
    WEIGHTS,
    {"layer": LAYERS},
    _FILES,
    op="quantize",
    upstream=(
        Ancestor(engine="llama.cpp", file=SOURCE, test="main", bound="none: the statistics are printed"),
    ),
)
