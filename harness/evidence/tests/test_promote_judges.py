"""Who has to have judged before a cell passes, and on which device it has to have run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.evidence.devices import capability, unfit
from harness.evidence.ledger_lines import OWN_PACKAGE
from harness.evidence.own_judges import own_may_judge
from harness.evidence.promote import promote
from harness.evidence.record import Judge
from harness.evidence.tests.made import CASES, Q4_K, evidence, judges, make_run, on, passing
from harness.verdicts import Verdict


def own(pin: str) -> Judge:
    fields = {"pin": pin, "package": OWN_PACKAGE, "version": "0", "wheel_sha256": ""}
    return judges()[0].model_copy(update=fields)


def test_a_judge_of_our_own_needs_a_pin(tree: Path) -> None:
    both = (judges()[0], own("formula"))
    done = promote(make_run(tree, [evidence(case, tree, judges=both) for case in CASES]), tree)
    assert len(done.added) == 4


@pytest.mark.parametrize("pin", ["formula", "reference", "llama_cpp.ops"])
def test_a_judge_of_our_own_is_enough_for_a_pass(tree: Path, pin: str) -> None:
    cases = [case for case in on("cpu") if Q4_K in case.rows]
    entries = [evidence(cases[0], tree, judges=(own(pin),)), *passing(tree, cases[1:])]
    done = promote(make_run(tree, entries), tree)
    assert done.added == ()
    assert f"passed before {pin} alone" in done.blocked[0].reason
    assert cases[0].id in done.blocked[0].reason


@pytest.mark.parametrize(
    ("op", "encoding", "pin", "may"),
    [
        ("dequantize", "ggml.q8_1", "formula", True),
        ("dequantize", "ggml.q8_1", "float64_product", False),
        ("matmul", "ggml.q8_1", "formula", False),
        ("dequantize", "ggml.q8_0", "formula", False),
        ("dequantize", None, "formula", False),
    ],
)
def test_an_encoding_that_engines_decode_is_an_exception(
    op: str, encoding: str | None, pin: str, may: bool
) -> None:
    assert own_may_judge(op, encoding, frozenset({pin})) is may


@pytest.mark.parametrize(
    ("device", "fits"),
    [
        ("NVIDIA H200", True),
        ("cpu", False),
        ("", False),
        ("triton interpreter", False),
        ("clang shim", False),
        ("NVIDIA H200 (CPU)", False),
        ("AMD EPYC 9654 CPU", False),
        ("NVIDIA A100-SXM4-80GB", False),
        ("NVIDIA B200", False),
        ("GPU", False),
    ],
)
def test_a_stand_in_passes_for_a_device(tree: Path, device: str, fits: bool) -> None:
    entries = [
        evidence(case, tree, device=device) if device else evidence(case, tree, Verdict.ERROR_RUN, device="")
        for case in on("triton@sm_90")
    ]
    done = promote(make_run(tree, entries), tree)
    assert bool(done.added) is fits
    assert fits or all("for triton@sm_90" in left.reason for left in done.blocked)


@pytest.mark.parametrize(
    ("device", "number"),
    [
        *(("NVIDIA H100 80GB HBM3", 90), ("NVIDIA H200", 90), ("NVIDIA GH200 480GB", 90)),
        *(("NVIDIA A100-PCIE-40GB", 80), ("NVIDIA L4", 89), ("NVIDIA L40S", 89)),
        *(("NVIDIA GeForce RTX 4090", 89), ("Quadro RTX 4000", None), ("NVIDIA B200", 100)),
        *(("NVIDIA GB200", 100), ("H200", None), ("NVIDIA H2000", None)),
    ],
)
def test_a_device_is_taken_for_one_of_another_capability(device: str, number: int | None) -> None:
    assert capability(device) == number


def test_an_unknown_device_is_left_out_without_the_way_to_add_it() -> None:
    assert "unknown device: add it to the table" in (unfit("cuda@sm_90", "NVIDIA H300") or "")
    assert "named no device" in (unfit("cuda@sm_90", "") or "")
    assert "which is sm_80" in (unfit("triton@sm_90", "NVIDIA A100-SXM4-40GB") or "")
    assert unfit("metal@apple", "Apple M3 Max") is None
    assert unfit("metal@apple", "NVIDIA H200") is not None
