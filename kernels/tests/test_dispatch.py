"""Dispatch: the kernel that is named is the one that can, and every other one has a reason."""

from __future__ import annotations

import dataclasses

import pytest

from harness.errors import UsageProblem
from kernels.common.triton.plan import MATVEC_MAX_M
from kernels.dispatch import KERNELS, Request, choose, explain
from kernels.units import load_units, unit

GPU = Request("ggml.q4_k", "matmul", "cuda", 90, activation="bfloat16", m=1, k=4096)


def reasons(request: Request) -> dict[str, str]:
    return {considered.kernel: considered.refused for considered in explain(request)}


@pytest.mark.parametrize(
    ("changes", "kernel"),
    [
        ({"m": 1}, "triton.matvec"),
        ({"m": MATVEC_MAX_M}, "triton.matvec"),
        ({"m": MATVEC_MAX_M + 1}, "triton.matmul"),
        ({"m": 4096}, "triton.matmul"),
        ({"m": 4096, "activation": "float32"}, "triton.matvec"),
        ({"m": 4096, "activation": "float16"}, "triton.matmul"),
        ({"op": "dequantize"}, "triton.expand"),
        ({"op": "get_rows"}, "triton.expand"),
    ],
)
def test_no_request_falls_between_two_kernels(changes: dict[str, object], kernel: str) -> None:
    chosen = choose(dataclasses.replace(GPU, **changes))
    assert (chosen.kernel, chosen.backend) == (kernel, "triton@sm_90")


def test_every_kernel_that_is_not_chosen_says_why() -> None:
    considered = explain(GPU)
    assert [c.kernel for c in considered if not c.refused] == ["triton.matvec"]
    assert all(c.refused for c in considered if c.kernel != "triton.matvec")
    assert (
        reasons(GPU)["triton.matmul"]
        == f"it takes at least {MATVEC_MAX_M + 1} rows of 16-bit activations, not 1"
    )
    assert "quantizes the activations" in reasons(GPU)["numpy.matmul"]


def test_a_device_below_the_minimum_is_refused_with_both_numbers() -> None:
    with pytest.raises(UsageProblem, match="it needs sm_80 or later, the device is sm_75"):
        choose(dataclasses.replace(GPU, capability=75))


def test_a_cpu_without_the_interpreter_is_told_how_to_get_it() -> None:
    request = Request("ggml.q4_k", "matmul", activation="float16", m=1, k=256)
    assert "TRITON_INTERPRET=1" in reasons(request)["triton.matvec"]
    interpreted = dataclasses.replace(request, interpreter=True)
    assert choose(interpreted).backend == "triton@interpreter"


def test_a_gpu_tensor_under_the_interpreter_is_refused() -> None:
    assert "TRITON_INTERPRET is set" in reasons(dataclasses.replace(GPU, interpreter=True))["triton.matvec"]


def test_a_backend_that_was_asked_for_is_the_only_one() -> None:
    request = Request("ggml.q4_k", "dequantize", backend="cpu", interpreter=True)
    assert choose(request).backend == "cpu"
    assert reasons(request)["triton.expand"] == "backend cpu was asked for"


def test_a_k_that_is_no_multiple_of_the_block_is_refused_with_the_block() -> None:
    with pytest.raises(UsageProblem, match="k = 4100 is not a multiple of the block of 256 weights"):
        choose(dataclasses.replace(GPU, k=4100))


def test_an_op_that_nobody_offers_is_refused() -> None:
    with pytest.raises(UsageProblem, match="no kernel: none offers the op"):
        choose(dataclasses.replace(GPU, op="kv_write"))


def test_a_unit_offers_triton_exactly_where_it_has_a_decode() -> None:
    for found in load_units().values():
        offered = {op for op, backends in found.ops.items() if "triton" in backends}
        has_decode = (found.path / "triton.py").is_file()
        assert offered == ({"dequantize", "matmul", "get_rows"} if has_decode else set()), found.encoding


def test_a_unit_names_no_backend_that_has_no_kernel() -> None:
    offered = {(kernel.family, kernel.op) for kernel in KERNELS}
    for found in load_units().values():
        for op, backends in found.ops.items():
            assert {(backend, op) for backend in backends} <= offered, found.encoding
    assert unit("ggml.q4_0").ops
