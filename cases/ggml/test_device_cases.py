"""Our Triton and CUDA kernels on a device, and Triton's under the interpreter, against products of the oracles' decodes.

The reference of a product is float64 on the same operands, over weights that each oracle decoded. The activations of the
CUDA kernel are the 8-bit codes that it multiplied; these are held against their own definition first.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest

from cases.generators import Blocks, code_fields
from cases.ggml.compute import gaussian, width
from cases.ggml.decode import VALUES
from cases.ggml.device import (
    CUDA_DECODE,
    CUDA_MATMUL,
    INTERPRETED_DECODE,
    INTERPRETED_MATMUL,
    INTERPRETED_SHAPES,
    SHAPES,
    TRITON_DECODE,
    TRITON_MATMUL,
)
from cases.ggml.judges import decoders
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
SkipCase = Callable[..., NoReturn]


@pytest.fixture
def interpreter(case: Case, skip_case: SkipCase) -> str:
    """Skips where Triton does not interpret in this process: it reads its mode once, when it is imported."""
    found = all(importlib.util.find_spec(name) for name in ("torch", "triton"))
    if not found or os.environ.get("TRITON_INTERPRET") != "1":
        skip_case(
            row=case.rows[0],
            kind="platform",
            owner="@kernels",
            reason="Triton interprets only with torch and triton installed and TRITON_INTERPRET=1 set from the start",
        )
    return "triton interpreter"


@pytest.fixture
def device(gpu_correctness: Any) -> str:
    """The name of the device, which this case has for itself."""
    import torch

    return torch.cuda.get_device_name(0)


def triton_kernel(found: Unit, name: str) -> str:
    return f"kernels/{found.dialect}/{found.name}/triton.py, {name}"


def decode_on(where: str, found: Unit, blocks: Blocks) -> tuple[npt.NDArray[np.float32], str]:
    """Decode blocks with Triton on the CPU (interpreted) or the GPU, or with CUDA: values and the kernel that ran."""
    import torch

    shape = (len(blocks), found.block_elems)
    data = torch.from_numpy(np.ascontiguousarray(blocks).reshape(-1).copy()).to(
        "cpu" if where == "interpreter" else "cuda"
    )
    if where == "cuda":
        from kernels import cuda_provider

        values, kernel = (
            cuda_provider.dequantize(found.encoding, data, shape),
            f"{found.path.name}/decode.cuh, cuda.dequantize",
        )
    else:
        from kernels import triton_provider

        out = torch.full(shape, 77.0, device=data.device)
        values, kernel = (
            triton_provider.dequantize(found.encoding, data, shape, out=out),
            triton_kernel(found, "triton.expand"),
        )
    return values.cpu().numpy(), kernel


def judge_decode(
    case: Case, where: str, name: str, device: str, verdict: CaseVerdict, pool: Pool, most: int
) -> None:
    found = unit(case.encoding or "")
    blocks = VALUES[case.axis("values")][0](found, np.random.default_rng(case.seed))
    blocks = np.ascontiguousarray(blocks[:: -(-len(blocks) // most)])
    values, kernel = decode_on(where, found, blocks)
    opinions = decoded_by(decoders(pool, found.encoding), found.encoding, blocks.reshape(-1), values.shape)
    if (
        not opinions
    ):  # an encoding of activations that no engine decodes: the reference, which its formula judges
        from harness.plugin.opinions import own_judge

        opinions = [
            Opinion(
                own_judge("reference", [found.path / "reference.py"]),
                dequantize(found.encoding, blocks.reshape(-1), values.shape),
            )
        ]
    verdict(values, opinions, kernel=kernel, device=device, block_elems=found.block_elems, name=name)


@pytest.mark.cases(TRITON_DECODE)
def test_a_triton_decode_differs_from_an_engine(
    case: Case, verdict: CaseVerdict, device: str, oracle_pool: Pool
) -> None:
    judge_decode(case, "triton", "triton", device, verdict, oracle_pool, 1 << 20)


@pytest.mark.cases(CUDA_DECODE)
def test_a_cuda_decode_differs_from_an_engine(
    case: Case, verdict: CaseVerdict, device: str, oracle_pool: Pool
) -> None:
    judge_decode(case, "cuda", "cuda", device, verdict, oracle_pool, 1 << 20)


@pytest.mark.cases(INTERPRETED_DECODE)
def test_an_interpreted_decode_differs_from_an_engine(
    case: Case, verdict: CaseVerdict, interpreter: str, oracle_pool: Pool
) -> None:
    judge_decode(case, "interpreter", "triton", interpreter, verdict, oracle_pool, 2000)


class Weights:
    """Weights of one encoding and shape, and what each oracle decodes them to: made once for all cases that share them."""

    def __init__(self, found: Unit, n: int, k: int, pool: Pool) -> None:
        seed = int.from_bytes(f"{found.encoding} {n} {k}".encode()[-8:], "little")
        _, blocks = gaussian(found, 1, n, k, np.random.default_rng(seed))
        self.data = np.ascontiguousarray(blocks).reshape(-1)
        self.shape = (n, k)
        self.decoded = [
            (opinion.judge, opinion.values)
            for opinion in decoded_by(decoders(pool, found.encoding), found.encoding, self.data, (n, k))
        ]
        self._offsets = functools.partial(_offsets, found, blocks, (n, k))
        self._kept: dict[tuple[str, str], Any] = {}

    def doubles(self, place: Any) -> list[tuple[Judge, Any]]:
        """Each oracle's decode on a device, in float64."""
        made = [self._keep(judge.pin, place, lambda values=values: values) for judge, values in self.decoded]
        return [(judge, tensor) for (judge, _), tensor in zip(self.decoded, made, strict=True)]

    def magnitude(self, place: Any, widened: bool) -> Any:
        """|b|, or |scale * code| + |offset| where the kernel multiplies these apart (or more: |b| + 2 |offset|)."""
        if not widened:
            return self._keep("magnitude", place, lambda: np.abs(self.decoded[0][1]))
        return self._keep("parts", place, lambda: np.abs(self.decoded[0][1]) + 2 * np.abs(self._offsets()))

    def _keep(self, name: str, place: Any, make: Callable[[], npt.NDArray[np.float32]]) -> Any:
        import torch

        key = (name, str(place))
        if key not in self._kept:
            self._kept[key] = torch.tensor(make(), device=place).double()
        return self._kept[key]


def _offsets(found: Unit, blocks: Blocks, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """What a weight would be with a code of zero: the offset that its scaled code is added to."""
    bare = blocks.copy()
    for field in code_fields(found):
        bare[:, field.offset : field.offset + field.bytes] = 0
    return dequantize(found.encoding, bare.reshape(-1), shape)


@pytest.fixture(scope="module")
def weights_of(oracle_pool: Pool) -> Callable[[str, int, int], Weights]:
    """The last weights that were asked for are kept: cases of one encoding and shape follow one another."""

    @functools.lru_cache(maxsize=1)
    def make(encoding: str, n: int, k: int) -> Weights:
        return Weights(unit(encoding), n, k, oracle_pool)

    return make


@pytest.fixture
def weights(case: Case, weights_of: Callable[[str, int, int], Weights]) -> Weights:
    """The weights of a case. Asked for before the device, so that nobody waits for a lock while they are made."""
    if CONDITIONS["no_gpu"]():  # nothing to make: the case is skipped
        return Weights.__new__(Weights)
    return weights_of(case.encoding or "", *SHAPES[case.axis("shape")])


def activations(m: int, k: int, dtype: str, seed: int, place: str) -> Any:
    """x [m, k] of the dtype, N(0, 1), its rows between NaNs: a read outside of them shows."""
    import torch

    values = np.random.default_rng(seed).standard_normal((m, k)).astype(np.float32)
    around = torch.full((m + 2, k + 32), float("nan"), dtype=getattr(torch, dtype), device=place)
    around[1:-1, 16:-16] = torch.from_numpy(values).to(place)
    return around[1:-1, 16:-16]


def exact_products(x: Any, weights: Weights, widened: bool = False) -> tuple[list[Opinion], Any]:
    """For each oracle the product in float64, and sum|a||b|; `widened` takes |b| of scaled code and offset apart."""
    operand = x.double()
    opinions = [
        Opinion(judge, (operand @ w.T).float().cpu().numpy()) for judge, w in weights.doubles(x.device)
    ]
    return opinions, operand.abs() @ weights.magnitude(x.device, widened).T


def judge_triton(case: Case, weights: Weights, m: int, place: str, device: str, verdict: CaseVerdict) -> None:
    import torch

    from kernels import triton_provider

    found, (n, k) = unit(case.encoding or ""), weights.shape
    x = activations(m, k, case.axis("activations"), case.seed, place)
    data = torch.from_numpy(weights.data).to(place)
    around = torch.full((m + 2, n), float("nan"), device=place)
    out = around[1:-1]
    triton_provider.matmul(found.encoding, x, data, (n, k), out=out)
    assert bool(around[0].isnan().all() and around[-1].isnan().all()), "rows beside the result were written"
    plan = triton_provider.plan_for(found.encoding, x, (n, k))
    opinions, size = exact_products(x, weights)
    gamma = k * ROUNDOFF / (1 - k * ROUNDOFF)
    r = plan.weight_roundoff
    limit = (
        (r + (1 + r) * gamma) * size + k * float(x.double().abs().max()) * SMALLEST_NORMAL + ROUNDOFF * size
    )
    verdict(
        out.cpu().numpy(),
        opinions,
        bound=Bound(limit.cpu().numpy(), case.bound),
        kernel=triton_kernel(found, plan.kernel),
        device=device,
        name="triton",
    )


@pytest.mark.cases(TRITON_MATMUL)
def test_a_triton_product_is_wrong_for_a_real_shape(
    case: Case, weights: Weights, device: str, verdict: CaseVerdict
) -> None:
    judge_triton(case, weights, int(case.axis("m")[1:]), "cuda", device, verdict)


@pytest.mark.cases(INTERPRETED_MATMUL)
def test_an_interpreted_product_is_wrong(
    case: Case, verdict: CaseVerdict, interpreter: str, weights_of: Callable[[str, int, int], Weights]
) -> None:
    n, blocks = INTERPRETED_SHAPES[case.axis("shape")]
    k = width(unit(case.encoding or ""), "one_block" if blocks == 1 else "three_blocks")
    judge_triton(
        case, weights_of(case.encoding or "", n, k), int(case.axis("m")[1:]), "cpu", interpreter, verdict
    )


def quantized_by_definition(
    x: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Codes int8 [m, k] and scales float32 [m, k / 32]: d = max|x| / 127, q = x / d to the nearest, ties to even."""
    groups = x.reshape(len(x), -1, 32)
    scales = np.abs(groups).max(axis=2) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(scales[:, :, None] > 0, np.rint(groups / scales[:, :, None]), 0)
    return np.clip(codes, -127, 127).astype(np.int8).reshape(x.shape), scales


@pytest.mark.cases(CUDA_MATMUL)
def test_a_cuda_product_is_wrong_for_a_real_shape(
    case: Case, weights: Weights, device: str, verdict: CaseVerdict
) -> None:
    import torch

    from kernels import cuda_provider

    found, m = unit(case.encoding or ""), int(case.axis("m")[1:])
    n, k = weights.shape
    x = activations(m, k, case.axis("activations"), case.seed, "cuda")
    product = cuda_provider.matmul(found.encoding, x, torch.from_numpy(weights.data).to("cuda"), (n, k))
    codes, scales = quantized_by_definition(x.float().cpu().numpy())
    assert np.array_equal(product.codes.cpu().numpy(), codes), (
        "the activations are not the codes of their definition"
    )
    assert np.array_equal(product.scales.cpu().numpy(), scales), (
        "the activations have other scales than their definition"
    )
    multiplied = (product.codes.double().view(m, -1, 32) * product.scales.double()[:, :, None]).view(m, k)
    opinions, size = exact_products(multiplied, weights, widened=True)
    terms = k // 1024 + 16
    gamma = terms * ROUNDOFF / (1 - terms * ROUNDOFF)
    verdict(
        product.values.cpu().numpy(),
        opinions,
        bound=Bound(((gamma + 2 * ROUNDOFF) * size).cpu().numpy(), case.bound),
        kernel=f"kernels/ggml/{found.name}/decode.cuh, cuda.matvec",
        device=device,
        name="cuda",
    )
