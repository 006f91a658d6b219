"""Ported from vllm-gguf-plugin's tests of its kernels: the families, the operands, and the plugin's own bounds beside ours.

Upstream decodes and multiplies weights of sample files; here the engine quantizes seeded Gaussians to the same widths.
Its activations are uniform between 0 and 1, and so are these. At the commit of the inventory its test of the Triton
dispatch calls the CUDA op, so that nothing of Triton is tested there; ours runs Triton. Its test of batches is skipped
always, since the plugin's kernel takes one sequence at a time; ours multiplies all rows of the batch at once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cases.generators import Blocks
from cases.ggml.compute import BOUND as CPU_BOUND
from cases.ggml.device import CUDA, CUDA_BOUND, TRITON_BOUND
from cases.ggml.family import decodes, products
from cases.ggml.judges import Upstream
from cases.upstream.inventory import load_inventory
from harness.evidence.case import Ancestor, Case
from kernels.quantizer import NEEDS_IMPORTANCE, quantize
from kernels.units import encoded_bytes, unit
from oracles.pool import Oracle

ENGINE = "vllm-gguf-plugin"
_FILE = load_inventory(ENGINE).files[0]


def _encodings(test: str) -> tuple[str, ...]:
    """The encodings of an upstream test, as its rows name them."""
    rows = next(found.rows for found in _FILE.tests if found.name == test)
    return tuple(f"ggml.{row.removeprefix('QUANT-GGUF-').lower()}" for row in rows)


ALL = _encodings("test_dequantize")
SIMPLE = _encodings("test_mmq")
"""The encodings whose products of many rows upstream tests: no IQ."""

HIDDEN = (256, 1024)
DTYPES = ("float16", "bfloat16", "float32")
TOKENS = (7, 83, 128, 2048)
BATCHES = (2, 4, 8)
ROWS, INTERPRETED_ROWS = 80, 9
"""Rows of weights, no multiple of a tile: the interpreter, which is slow, has the first of them."""

INTERPRETED_TOKENS = "t7"
CPU_BATCH_TOKENS = (7, 83)
"""The cpu multiplies the long sequences alone, and not in batches."""

LIMITS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "test_dequantize": dict.fromkeys(DTYPES, (1e-2, 4e-2)),
    "test_mmvq": dict.fromkeys(DTYPES, (1.0, 1e-1)),
    "test_mmq": {"float16": (1.0, 1e-1), "bfloat16": (1.5, 1e4), "float32": (1.2, 2e1)},
    "test_mmq_batching": {"float16": (1.0, 1e-1), "bfloat16": (2.0, 1e-1), "float32": (1.0, 2e-1)},
}
"""Test -> dtype -> atol and rtol."""


def upstream_of(test: str, dtype: str) -> Upstream:
    """Upstream's check of a result against the exact one, both in `dtype`: |a - b| <= atol + rtol |b|."""
    atol, rtol = LIMITS[test][dtype]

    def holds(values: npt.NDArray[np.float32], reference: npt.NDArray[np.float32]) -> bool:
        ours, theirs = (
            rounded(side, dtype).astype(np.float64).reshape(reference.shape) for side in (values, reference)
        )
        return bool(np.all(np.abs(ours - theirs) <= atol + rtol * np.abs(theirs)))

    return holds


def rounded(values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.float32]:
    """`values` rounded once to `dtype`, to nearest even, and kept as float32."""
    if dtype == "bfloat16":
        halves = quantize("ggml.bf16", values).view("<u2").astype(np.uint32)
        return (halves << 16).view(np.float32).reshape(values.shape)
    with np.errstate(over="ignore"):
        return values.astype(dtype).astype(np.float32)


def uniform(m: int, k: int, dtype: str, seed: int) -> npt.NDArray[np.float32]:
    """Activations [m, k] between 0 and 1, of `dtype`, kept as float32."""
    return rounded(np.random.default_rng(seed).random((m, k), np.float32), dtype)


def sample(engine: Oracle, encoding: str, rows: int, hidden: int) -> Blocks:
    """Weights [rows, hidden], N(0, 0.1), as the engine's quantizer writes them: uint8 [blocks, block_bytes]."""
    found = unit(encoding)
    seed = int.from_bytes(f"{encoding} {hidden}".encode()[-8:], "little")
    values = (0.1 * np.random.default_rng(seed).standard_normal((rows, hidden))).astype(np.float32)
    arrays: dict[str, npt.NDArray[Any]] = {"values": values}
    if encoding in NEEDS_IMPORTANCE:
        arrays["imatrix"] = np.ones(hidden, np.float32)
    data = engine.call("quantize", {"encoding": encoding}, arrays).arrays["data"]
    assert data.size == encoded_bytes(found, (rows, hidden))
    return data.reshape(-1, found.block_bytes)


def number(case: Case, axis: str) -> int:
    """The number in the value of an axis: 256 of `h256`."""
    return int(case.axis(axis)[1:])


def _ancestors(*tests: str) -> tuple[Ancestor, ...]:
    asserts = {test.name: test.asserts for test in _FILE.tests}
    return tuple(Ancestor(engine=ENGINE, file=_FILE.path, test=test, bound=asserts[test]) for test in tests)


def _no_decode(chosen: Mapping[str, str]) -> str | None:
    if chosen["backend"] == "cuda@sm_90" and chosen["dtype"] != "float32":
        return "the kernel decodes to float32 alone"
    return _misfit(chosen)


def _misfit(chosen: Mapping[str, str]) -> str | None:
    if chosen["backend"] == "cuda@sm_90" and chosen["encoding"] not in CUDA:
        return "no CUDA kernel has this encoding"
    if chosen["backend"] != "triton@interpreter":
        return None
    slow = chosen["hidden"] != "h256" or chosen.get("tokens", INTERPRETED_TOKENS) != INTERPRETED_TOKENS
    return "the interpreter is slow" if slow else None


_CPU_FILES, _DEVICE_FILES = (
    (Path(__file__), Path(__file__).parent / f"test_gguf_plugin{where}.py") for where in ("", "_device")
)
_HIDDEN = {"hidden": tuple(f"h{size}" for size in HIDDEN), "dtype": DTYPES}
_TOKENS = {"tokens": tuple(f"t{tokens}" for tokens in TOKENS)} | _HIDDEN
_BATCH = {"batch": tuple(f"b{size}" for size in BATCHES)} | _TOKENS
_CPU_BATCH = _BATCH | {"tokens": tuple(f"t{tokens}" for tokens in CPU_BATCH_TOKENS)}
_TRITON = ("triton@interpreter", "triton@sm_90")

DEQUANTIZE_CPU = decodes(
    "ggml.gguf_plugin_dequantize_cpu",
    ALL,
    {"hidden": _HIDDEN["hidden"]},
    _CPU_FILES,
    upstream=_ancestors("test_dequantize"),
)
DEQUANTIZE = decodes(
    "ggml.gguf_plugin_dequantize",
    ALL,
    _HIDDEN,
    _DEVICE_FILES,
    backends=(*_TRITON, "cuda@sm_90"),
    refuse=_no_decode,
    upstream=_ancestors("test_dequantize"),
)

_on_cpu = functools.partial(products, files=_CPU_FILES, bound=CPU_BOUND)
_on_triton = functools.partial(products, files=_DEVICE_FILES, bound=TRITON_BOUND, refuse=_misfit)
_on_cuda = functools.partial(products, files=_DEVICE_FILES, bound=CUDA_BOUND, backends=("cuda@sm_90",))

_mmvq = _ancestors("test_mmvq")
MMVQ_CPU = _on_cpu("ggml.gguf_plugin_mmvq_cpu", ALL, _HIDDEN, upstream=_mmvq)
MMVQ_TRITON = _on_triton("ggml.gguf_plugin_mmvq_triton", ALL, _HIDDEN, backends=_TRITON, upstream=_mmvq)
MMVQ_CUDA = _on_cuda(
    "ggml.gguf_plugin_mmvq_cuda", tuple(name for name in ALL if name in CUDA), _HIDDEN, upstream=_mmvq
)

MMQ_CPU = _on_cpu("ggml.gguf_plugin_mmq_cpu", SIMPLE, _TOKENS, upstream=_ancestors("test_mmq"))
MMQ_CUDA = _on_cuda("ggml.gguf_plugin_mmq_cuda", SIMPLE, _TOKENS, upstream=_ancestors("test_mmq"))
MMQ_TRITON = _on_triton(
    "ggml.gguf_plugin_mmq_triton",
    SIMPLE,
    _TOKENS,
    backends=_TRITON,
    upstream=_ancestors("test_mmq_triton_dispatch"),
)

_batching = _ancestors("test_mmq_batching")
BATCHING_CPU = _on_cpu("ggml.gguf_plugin_batching_cpu", SIMPLE, _CPU_BATCH, upstream=_batching)
BATCHING_TRITON = _on_triton(
    "ggml.gguf_plugin_batching_triton", SIMPLE, _BATCH, backends=("triton@sm_90",), upstream=_batching
)
BATCHING_CUDA = _on_cuda("ggml.gguf_plugin_batching_cuda", SIMPLE, _BATCH, upstream=_batching)

ALONE = frozenset({"cpu", "cuda@sm_90"})
"""Backends on which a sequence has the same bits alone as within a batch.

On the cpu the sums of integers are exact, so that their order plays no part. The CUDA kernel sums each row in an order
that does not depend on how many rows there are. Triton picks its loop, its tile and its splits by the number of rows:
there only where a row stands in the batch must not matter.
"""
