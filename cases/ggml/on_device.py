"""How a case of ggml encodings runs on Triton or CUDA, on a device or under the interpreter, and how it is judged.

The reference of a product is float64 on the same operands, over weights that each oracle decoded. The activations of the
CUDA kernel are the 8-bit codes that it multiplied; these are held against their own definition first.

Nothing here imports torch before it is called: the cases of the cpu are collected without it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest

from cases.generators import Blocks, code_fields
from cases.ggml.compute import gaussian
from cases.ggml.judges import Upstream, decoders
from cases.ggml.same_bits import first_changed, not_the_same
from harness.comparison.bounds import Bound
from harness.evidence.case import Case
from harness.evidence.record import Judge
from harness.plugin.conditions import CONDITIONS
from harness.plugin.judging import Opinion
from harness.plugin.opinions import decoded_by
from harness.plugin.verdict import CaseVerdict
from kernels.provider import dequantize
from kernels.units import Unit, unit
from oracles.pool import Pool

ROUNDOFF = 2.0**-24
SMALLEST_NORMAL = 2.0**-126
POISON_BLOCKS = 16
"""Blocks of 0xFF on either side of weights: as many as keep the alignment that weights have by themselves."""

INTERPRETER = "triton@interpreter"
SkipCase = Callable[..., NoReturn]


@dataclass(frozen=True)
class Place:
    """Where a case runs: its backend, the torch device of its tensors, and the name of the device for evidence."""

    backend: str
    tensors: str
    device: str

    @property
    def subject(self) -> str:
        """`triton` or `cuda`."""
        return self.backend.partition("@")[0]


def place_of(case: Case, request: pytest.FixtureRequest, skip_case: SkipCase) -> Place:
    """Where `case` runs; a fixture of the modules that run it. A GPU is the case's own until it ends.

    Under the interpreter it skips where Triton does not interpret in this process: it reads its mode once, when it is
    imported.
    """
    if case.backend == INTERPRETER:
        if not interprets():
            skip_case(
                row=case.rows[0],
                kind="platform",
                owner="@kernels",
                reason="Triton interprets only with torch and triton installed and TRITON_INTERPRET=1 set from the start",
            )
        return Place(case.backend, "cpu", "triton interpreter")
    request.getfixturevalue("gpu_correctness")
    import torch

    return Place(case.backend, "cuda", torch.cuda.get_device_name(0))


def interprets() -> bool:
    """Whether Triton interprets in this process."""
    found = all(importlib.util.find_spec(name) for name in ("torch", "triton"))
    return found and os.environ.get("TRITON_INTERPRET") == "1"


def no_device(case: Case) -> bool:
    """Whether the case is going to be skipped, so that nothing need be made for it."""
    return not interprets() if case.backend == INTERPRETER else CONDITIONS["no_gpu"]()


def kernel_on(place: Place, found: Unit, name: str) -> str:
    """Our kernel as evidence names it."""
    file = "triton.py" if place.subject == "triton" else "decode.cuh"
    return f"kernels/{found.dialect}/{found.name}/{file}, {name}"


def decode_on(
    place: Place, found: Unit, blocks: Blocks, dtype: str = "float32"
) -> tuple[npt.NDArray[np.float32], str]:
    """Decode blocks uint8 [n, block_bytes] to values [n, block_elems] of `dtype`, here as float32, and the kernel that ran.

    The CUDA kernel decodes to float32 alone.
    """
    import torch

    shape = (len(blocks), found.block_elems)
    data = torch.from_numpy(np.ascontiguousarray(blocks).reshape(-1).copy()).to(place.tensors)
    if place.subject == "cuda":
        from kernels import cuda_provider

        assert dtype == "float32", "the CUDA decode has no other type"
        values, name = cuda_provider.dequantize(found.encoding, data, shape), "cuda.dequantize"
    else:
        from kernels import triton_provider

        out = torch.full(shape, 77.0, dtype=getattr(torch, dtype), device=data.device)
        values, name = triton_provider.dequantize(found.encoding, data, shape, out=out), "triton.expand"
    return values.float().cpu().numpy(), kernel_on(place, found, name)


class Weights:
    """Weights [n, k] of one encoding, and what each oracle decodes them to: made once for all cases that share them."""

    def __init__(self, found: Unit, blocks: Blocks, shape: tuple[int, int], pool: Pool) -> None:
        self.encoding = found.encoding
        self.data = np.ascontiguousarray(blocks).reshape(-1)
        self.shape = shape
        self.decoded = [
            (opinion.judge, opinion.values)
            for opinion in decoded_by(decoders(pool, found.encoding), found.encoding, self.data, shape)
        ]
        self._offsets = functools.partial(_offsets, found, blocks, shape)
        self._kept: dict[tuple[str, str], Any] = {}

    def tensor(self, place: Place) -> Any:
        """The data on a device, uint8 [n_bytes], between blocks of 0xFF that a read outside of it would meet."""
        import torch

        poison = np.full(POISON_BLOCKS * unit(self.encoding).block_bytes, 0xFF, np.uint8)
        around = torch.from_numpy(np.concatenate([poison, self.data, poison])).to(place.tensors)
        return around[poison.size : -poison.size]

    def doubles(self, device: Any) -> list[tuple[Judge, Any]]:
        """Each oracle's decode on a device, in float64."""
        return [
            (judge, self._keep(judge.pin, device, functools.partial(np.asarray, values)))
            for judge, values in self.decoded
        ]

    def magnitude(self, device: Any, widened: bool) -> Any:
        """|b|, or |scale * code| + |offset| where the kernel multiplies these apart (or more: |b| + 2 |offset|)."""
        if not widened:
            return self._keep("magnitude", device, lambda: np.abs(self.decoded[0][1]))
        return self._keep("parts", device, lambda: np.abs(self.decoded[0][1]) + 2 * np.abs(self._offsets()))

    def _keep(self, name: str, device: Any, make: Callable[[], npt.NDArray[np.float32]]) -> Any:
        import torch

        key = (name, str(device))
        if key not in self._kept:
            self._kept[key] = torch.tensor(make(), device=device).double()
        return self._kept[key]


def _offsets(found: Unit, blocks: Blocks, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """What a weight would be with a code of zero: the offset that its scaled code is added to."""
    bare = blocks.copy()
    for field in code_fields(found):
        bare[:, field.offset : field.offset + field.bytes] = 0
    return dequantize(found.encoding, bare.reshape(-1), shape)


WeightsOf = Callable[[str, int, int], Weights]


def weights_maker(pool: Pool) -> WeightsOf:
    """Ordinary weights by encoding, n and k. The last ones are kept: cases of one encoding and shape follow one another."""

    @functools.lru_cache(maxsize=1)
    def make(encoding: str, n: int, k: int) -> Weights:
        found = unit(encoding)
        seed = int.from_bytes(f"{encoding} {n} {k}".encode()[-8:], "little")
        _, blocks = gaussian(found, 1, n, k, np.random.default_rng(seed))
        return Weights(found, blocks, (n, k), pool)

    return make


def on_place(place: Place, values: npt.NDArray[np.float32], dtype: str) -> Any:
    """x [m, k] of the dtype as a tensor whose rows lie between NaNs: a read outside of them shows."""
    import torch

    m, k = values.shape
    around = torch.full((m + 2, k + 32), float("nan"), dtype=getattr(torch, dtype), device=place.tensors)
    around[1:-1, 16:-16] = torch.from_numpy(values).to(place.tensors)
    return around[1:-1, 16:-16]


def activations(place: Place, m: int, k: int, dtype: str, seed: int) -> Any:
    """x [m, k] of the dtype, N(0, 1), its rows between NaNs."""
    values = np.random.default_rng(seed).standard_normal((m, k)).astype(np.float32)
    return on_place(place, values, dtype)


@dataclass(frozen=True)
class Product:
    """A product as it was computed: `values` float32 [m, n] of `operand` [m, k], tensors on one device.

    `limit` makes the bound [m, n] of sum|a||b|, or of sum |a| (|scaled code| + |offset|) where it is `widened`.
    """

    values: Any
    operand: Any
    kernel: str
    limit: Callable[[Any], Any]
    widened: bool = False


def multiply(place: Place, encoding: str, x: Any, data: Any, shape: tuple[int, int]) -> Product:
    """x [m, k] times the transposed weights `data`, `shape` (n, k), by the kernel of the place's backend."""
    on = _multiply_cuda if place.subject == "cuda" else _multiply_triton
    return on(place, unit(encoding), x, data, shape)


def _multiply_triton(place: Place, found: Unit, x: Any, data: Any, shape: tuple[int, int]) -> Product:
    import torch

    from kernels import triton_provider

    n, k = shape
    around = torch.full((len(x) + 2, n), float("nan"), device=x.device)
    triton_provider.matmul(found.encoding, x, data, shape, out=around[1:-1])
    assert bool(around[0].isnan().all() and around[-1].isnan().all()), "rows beside the result were written"
    plan = triton_provider.plan_for(found.encoding, x, shape)
    r, gamma = plan.weight_roundoff, _gamma(k)
    flushed = k * float(x.double().abs().max()) * SMALLEST_NORMAL
    return Product(
        around[1:-1],
        x.double(),
        kernel_on(place, found, plan.kernel),
        lambda size: (r + (1 + r) * gamma + ROUNDOFF) * size + flushed,
    )


def _multiply_cuda(place: Place, found: Unit, x: Any, data: Any, shape: tuple[int, int]) -> Product:
    from kernels import cuda_provider

    product = cuda_provider.matmul(found.encoding, x, data, shape)
    codes, scales = quantized_by_definition(x.float().cpu().numpy())
    assert np.array_equal(product.codes.cpu().numpy(), codes), (
        "the activations are not the codes of their definition"
    )
    assert np.array_equal(product.scales.cpu().numpy(), scales), (
        "the activations have other scales than their definition"
    )
    groups = product.codes.double().view(len(x), -1, 32) * product.scales.double()[:, :, None]
    gamma = _gamma(shape[1] // 1024 + 16)
    return Product(
        product.values,
        groups.view(len(x), -1),
        kernel_on(place, found, "cuda.matvec"),
        lambda size: (gamma + 2 * ROUNDOFF) * size,
        widened=True,
    )


def _gamma(terms: int) -> float:
    return terms * ROUNDOFF / (1 - terms * ROUNDOFF)


def quantized_by_definition(
    x: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Codes int8 [m, k] and scales float32 [m, k / 32]: d = max|x| / 127, q = x / d to the nearest, ties to even."""
    groups = x.reshape(len(x), -1, 32)
    scales = np.abs(groups).max(axis=2) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(scales[:, :, None] > 0, np.rint(groups / scales[:, :, None]), 0)
    return np.clip(codes, -127, 127).astype(np.int8).reshape(x.shape), scales


def judge_product(
    case: Case,
    place: Place,
    product: Product,
    weights: Weights,
    verdict: CaseVerdict,
    upstream: Upstream | None = None,
    again: Sequence[Any] = (),
) -> None:
    """The verdict on a product: the same bits as its repetitions `again`, then each element within the bound."""
    device = product.operand.device
    opinions = [
        Opinion(judge, (product.operand @ w.T).float().cpu().numpy()) for judge, w in weights.doubles(device)
    ]
    size = product.operand.abs() @ weights.magnitude(device, product.widened).T
    bound = Bound(product.limit(size).cpu().numpy(), case.bound)
    values = product.values.cpu().numpy()
    said: Mapping[str, Any] = {"kernel": product.kernel, "device": place.device, "name": place.subject}
    if (changed := first_changed(values, [run.cpu().numpy() for run in again])) is not None:
        verdict.record(not_the_same(changed, opinions, bound), result=values, **said)
    holds = upstream(values, opinions[0].values) if upstream is not None and opinions else None
    verdict(values, opinions, bound=bound, upstream_bound_holds=holds, **said)
