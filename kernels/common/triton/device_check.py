"""Is what the Triton kernels compute on this GPU right? Decodes bit by bit, products within a derived bound.

Each check is a dictionary: encoding, op, what was run, the kernel, the verdict, and how near to the bound the worst
element came (`worst`, 1 is at the bound). The reference of a decode is the numpy one; that of a product is float64 on the
GPU, over weights that the decode made, which was checked before, also on these very weights.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]

from cases.generators import suite
from kernels import triton_provider
from kernels.common.triton.device_data import random_weights
from kernels.provider import dequantize
from kernels.units import Unit, unit

Check = dict[str, Any]

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
UNIT_ROUNDOFF = 2.0**-24
SMALLEST_NORMAL = 2.0**-126
"""The matrix units may take a weight below this for zero."""

EDGE_M = (1, 3, 8, 9, 17, 65, 129)
EDGE_N = 67
EDGE_BLOCKS = (1, 3, 9)


def check_encoding(encoding: str, shapes: list[tuple[int, int]], ms: list[int], device: str) -> list[Check]:
    """All checks of one encoding; `shapes` (n, k) and `ms` of the large products."""
    found = unit(encoding)
    torch.backends.cuda.matmul.allow_tf32 = False
    checks = [*_decodes(found, device), *_rows(found, device)]
    for blocks in EDGE_BLOCKS:
        k = blocks * max(found.block_elems, 32)
        checks += _products(found, EDGE_N, k, list(EDGE_M), device)
    checks += _views(found, device)
    for n, k in shapes:
        checks += _products(found, n, k, ms, device)
    return checks


def _check(
    found: Unit, op: str, what: str, kernel: str, verdict: str, worst: float = 0.0, **more: Any
) -> Check:
    return {
        "encoding": found.encoding,
        "op": op,
        "what": what,
        "kernel": kernel,
        "verdict": verdict,
        "worst": worst,
        **more,
    }


def _same_bits(got: Any, expected: Any) -> bool:
    """The same NaN mask, and the same bits everywhere else."""
    integers = {4: torch.int32, 2: torch.int16}[got.element_size()]
    nan = torch.isnan(expected)
    return bool(((got.view(integers) == expected.view(integers)) | (nan & torch.isnan(got))).all())


def _decodes(found: Unit, device: str) -> Iterator[Check]:
    for case in suite(found, random=20000, seed=zlib.crc32(found.encoding.encode())):
        shape = (len(case.blocks), found.block_elems)
        reference = dequantize(found.encoding, np.ascontiguousarray(case.blocks).reshape(-1), shape)
        expected = torch.from_numpy(reference).to(device)
        data = torch.from_numpy(np.ascontiguousarray(case.blocks).reshape(-1)).to(device)
        for name, dtype in DTYPES.items():
            guarded = torch.full((expected.numel() + 128,), 77.0, dtype=dtype, device=device)
            out = guarded[64:-64].view(shape)
            triton_provider.dequantize(found.encoding, data, shape, out=out)
            inside = bool((guarded[:64] == 77).all() and (guarded[-64:] == 77).all())
            verdict = (
                "FAIL_OOB" if not inside else "PASS" if _same_bits(out, expected.to(dtype)) else "FAIL_VALUE"
            )
            yield _check(found, "dequantize", f"{case.name}, {name}", "triton.expand", verdict)
        if case.name.startswith("random bytes"):
            moved = torch.cat([data[:1], data])[1:]
            same = _same_bits(triton_provider.dequantize(found.encoding, moved, shape), expected)
            yield _check(
                found, "dequantize", "odd address", "triton.expand", "PASS" if same else "FAIL_VALUE"
            )


def _rows(found: Unit, device: str) -> Iterator[Check]:
    shape = (97, 5 * max(found.block_elems, 32))
    data = random_weights(found, shape, device, 3)
    whole = triton_provider.dequantize(found.encoding, data, shape)
    wanted = torch.randint(0, 97, (300,), device=device)
    same = _same_bits(triton_provider.get_rows(found.encoding, wanted, data, shape), whole[wanted])
    yield _check(found, "get_rows", "97 rows, 300 wanted", "triton.expand", "PASS" if same else "FAIL_VALUE")


def _products(found: Unit, n: int, k: int, ms: list[int], device: str) -> Iterator[Check]:
    data = random_weights(found, (n, k), device, n + k)
    weights = triton_provider.dequantize(found.encoding, data, (n, k))
    row_bytes = data.numel() // n
    for start in (0, max(0, n - 16)):
        rows = min(16, n - start)
        host = data[start * row_bytes : (start + rows) * row_bytes].cpu().numpy()
        reference = torch.from_numpy(dequantize(found.encoding, host, (rows, k))).to(device)
        verdict = "PASS" if _same_bits(weights[start : start + rows], reference) else "FAIL_VALUE"
        yield _check(found, "dequantize", f"rows {start} on of {n} x {k}", "triton.expand", verdict)
    weights = weights.double()
    generator = torch.Generator(device).manual_seed(k)
    for dtype in DTYPES.values():
        # Rows of x and of y lie between NaNs.
        around = torch.full((max(ms) + 2, k + 32), float("nan"), dtype=dtype, device=device)
        x = around[1:-1, 16:-16]
        x.copy_(torch.randn(x.shape, device=device, generator=generator))
        exact = x.double() @ weights.T
        magnitude = x.double().abs() @ weights.abs().T
        largest = float(x.double().abs().max())
        for m in ms:
            yield _product(found, x[:m], data, (n, k), exact[:m], magnitude[:m], largest)


def _product(
    found: Unit, x: Any, data: Any, shape: tuple[int, int], exact: Any, magnitude: Any, largest: float
) -> Check:
    (m, k), n = x.shape, shape[0]
    plan = triton_provider.plan_for(found.encoding, x, shape)
    guarded = torch.full((m + 2, n), float("nan"), device=x.device)
    out = guarded[1:-1]
    triton_provider.matmul(found.encoding, x, data, shape, out=out)
    first = out.clone()
    out.fill_(float("nan"))
    triton_provider.matmul(found.encoding, x, data, shape, out=out)
    gamma = k * UNIT_ROUNDOFF / (1 - k * UNIT_ROUNDOFF)
    bound = (
        plan.weight_roundoff + (1 + plan.weight_roundoff) * gamma
    ) * magnitude + k * largest * SMALLEST_NORMAL
    error = (first.double() - exact).abs()
    worst = float((error / bound).max())
    if not bool(guarded[0].isnan().all() and guarded[-1].isnan().all()):
        verdict = "FAIL_OOB"
    elif not bool(first.isfinite().all()):
        verdict = "FAIL_NONFINITE"
    elif bool((~(error <= bound)).any()):
        verdict = "FAIL_VALUE"
    else:
        verdict = "PASS" if torch.equal(first, out) else "FAIL_NONDET"
    relative = float((first.double() - exact).norm() / exact.norm())
    what = f"{m} x {n} x {k}, {triton_provider.name_of(x.dtype)}"
    return _check(
        found, "matmul", what, plan.kernel, verdict, worst, relative_error=relative, splits=plan.splits
    )


def _views(found: Unit, device: str) -> Iterator[Check]:
    n, k = EDGE_N, 2 * max(found.block_elems, 32)
    data = random_weights(found, (n, k), device, 9)
    for name, m in (("float16", 3), ("bfloat16", 17)):
        x = torch.randn((m, k), device=device).to(DTYPES[name])
        expected = triton_provider.matmul(found.encoding, x, data, (n, k))
        spaced = torch.full((2 * m, 3 * k), float("nan"), dtype=x.dtype, device=device)
        spaced[::2, ::3] = x
        shifted = torch.cat([x.new_zeros(1), x.reshape(-1)])[1:].view(m, k)
        for view, what in (
            (spaced[::2, ::3], "spaced"),
            (x.T.contiguous().T, "transposed"),
            (shifted, "shifted"),
        ):
            same = torch.equal(triton_provider.matmul(found.encoding, view, data, (n, k)), expected)
            kernel = triton_provider.plan_for(found.encoding, view, (n, k)).kernel
            verdict = "PASS" if same else "FAIL_VALUE"
            yield _check(found, "matmul", f"{what} view, {m} x {n} x {k}, {name}", kernel, verdict)
