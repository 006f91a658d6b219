"""How long the Triton kernels take on this GPU: CUDA graphs over weights that do not fit in its cache."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from kernels import triton_provider
from kernels.common.triton.device_data import random_weights
from kernels.common.triton.plan import Plan
from kernels.units import encoded_bytes, unit

Timing = dict[str, Any]

ROTATED_BYTES = 256 << 20
"""Several times the second-level cache of the largest GPU there is."""

REPLAYS = 7
GRAPH_MICROSECONDS = 8000.0
MAX_LAUNCHES = 80


def time_launches(call: Callable[[int], object], copies: int) -> tuple[float, float]:
    """Median microseconds of one `call(i)`, i going round the copies, and the spread (maximum - minimum) / median."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        once = _elapsed(lambda: call(0), warm=2)
    torch.cuda.current_stream().wait_stream(side)
    launches = max(4, min(MAX_LAUNCHES, math.ceil(GRAPH_MICROSECONDS / once)))
    launches = max(launches, min(copies, MAX_LAUNCHES))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            call(i % copies)
    graph.replay()
    times = [_elapsed(graph.replay) / launches for _ in range(REPLAYS)]
    median = statistics.median(times)
    return median, (max(times) - min(times)) / median


def _elapsed(run: Callable[[], object], warm: int = 0) -> float:
    for _ in range(warm):
        run()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000


@dataclasses.dataclass(frozen=True)
class Weights:
    """Encoded weights of one shape, `bytes` a copy, enough copies of them to leave the cache cold."""

    encoding: str
    shape: tuple[int, int]
    bytes: int
    copies: tuple[Any, ...]


def make_weights(encoding: str, shape: tuple[int, int], device: str) -> Weights:
    """Random weights on the device."""
    found = unit(encoding)
    size = encoded_bytes(found, shape)
    seeds = range(max(2, math.ceil(ROTATED_BYTES / size)))
    return Weights(encoding, shape, size, tuple(random_weights(found, shape, device, seed) for seed in seeds))


def time_matmul(weights: Weights, m: int, dtype: str, plan: Plan | None = None) -> Timing:
    """One product, float32 out."""
    n, k = weights.shape
    device = weights.copies[0].device
    x = torch.randn((m, k), device=device).to(getattr(torch, dtype))
    out = torch.empty((m, n), device=device)
    plan = plan or triton_provider.plan_for(weights.encoding, x, weights.shape)

    def call(i: int) -> None:
        triton_provider.matmul(weights.encoding, x, weights.copies[i], weights.shape, out=out, plan=plan)

    median, spread = time_launches(call, len(weights.copies))
    moved = weights.bytes + x.numel() * x.element_size() + 4 * out.numel()
    return {
        "encoding": weights.encoding,
        "op": "matmul",
        "m": m,
        "n": n,
        "k": k,
        "activation": dtype,
        "kernel": plan.kernel,
        "tile": [plan.tile.rows_x, plan.tile.rows_w, plan.tile.groups, plan.tile.warps, plan.tile.stages],
        "splits": plan.splits,
        "median_us": median,
        "spread": spread,
        "gbps": moved / median / 1e3,
        "tflops": 2 * m * n * k / median / 1e6,
    }


def time_dequantize(weights: Weights, dtype: str) -> Timing:
    """One decode of the whole matrix."""
    n, k = weights.shape
    out = torch.empty((n, k), dtype=getattr(torch, dtype), device=weights.copies[0].device)

    def call(i: int) -> None:
        triton_provider.dequantize(weights.encoding, weights.copies[i], weights.shape, out=out)

    median, spread = time_launches(call, len(weights.copies))
    moved = weights.bytes + out.numel() * out.element_size()
    return {
        "encoding": weights.encoding,
        "op": "dequantize",
        "n": n,
        "k": k,
        "out": dtype,
        "kernel": "triton.expand",
        "median_us": median,
        "spread": spread,
        "gbps": moved / median / 1e3,
    }


def copy_bandwidth(device: str) -> float:
    """GB/s of a device-to-device copy of 1 GiB, bytes read and written: the ceiling of what moves memory."""
    source = torch.randint(0, 255, (1 << 30,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    median = statistics.median(_elapsed(lambda: target.copy_(source), warm=1) for _ in range(5))
    return float(2 * source.numel() / median / 1e3)
