"""Faults planted into our kernels for the ops of test-backend-ops: the cases see each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cases.ggml import test_backend_ops_cases as cases
from cases.ggml.backend_ops import FAMILIES, line_of
from harness.comparison.bounds import Bound
from harness.evidence.case import Case
from harness.plugin.judging import judge
from harness.plugin.verdict import Guarded, State
from harness.verdicts import Verdict
from kernels import cpu_batched, cpu_moe, cpu_ops
from kernels.cpu_views import View, contiguous
from oracles.pool import Oracle, Pool

Patch = pytest.MonkeyPatch
TESTS = {
    "mul_mat": cases.test_a_product_of_batches_is_wrong,
    "mul_mat_id": cases.test_a_product_with_chosen_experts_is_wrong,
    "out_prod": cases.test_an_outer_product_of_batches_is_wrong,
    "get_rows": cases.test_rows_are_taken_from_the_wrong_place,
    "get_rows_back": cases.test_a_gradient_of_rows_lands_in_the_wrong_row,
    "set_rows": cases.test_rows_are_set_in_the_wrong_place,
    "cpy": cases.test_a_copy_writes_the_wrong_bytes,
}


def packed(view: View) -> View:
    """The view as one that ignores strides takes it: the first bytes, row after row."""
    return contiguous(view.encoding, view.data, view.shape)


def ignore_strides(patch: Patch) -> None:
    for name in ("rows", "values", "blocks"):
        whole = getattr(View, name)
        # Through a view that is packed itself, the real method sees nothing else.
        patch.setattr(View, name, lambda self, whole=whole: whole(packed(self)))


def share_in_turn(patch: Patch) -> None:
    """Matrices of weights taken again from the first one, where each should serve a run of matrices."""

    def runs(weights: View, x: View) -> Iterator[Any]:
        rows = weights.rows()
        for number, at in enumerate(np.ndindex(*x.shape[:-2])):
            owner = tuple(place % own for place, own in zip(at, weights.shape[:-2], strict=True))
            yield [(0, number)], rows[owner][None]

    patch.setattr(cpu_batched, "_runs", runs)


def no_sharing(patch: Patch) -> None:
    """Every matrix of activations multiplied with the first matrix of weights."""

    def runs(weights: View, x: View) -> Iterator[Any]:
        first = weights.rows()[(0,) * (len(weights.shape) - 2)][None]
        yield [(0, number) for number in range(int(np.prod(x.shape[:-2])))], first

    patch.setattr(cpu_batched, "_runs", runs)


def around(module: Any, name: str, change: Callable[..., Any]) -> Callable[[Patch], None]:
    """Plants `change(real, *arguments)` in the place of a function."""
    real = getattr(module, name)
    return lambda patch: patch.setattr(module, name, lambda *args: change(real, *args))


def next_expert(real: Any, encoding: str, x: Any, data: Any, shape: Any, ids: Any) -> Any:
    return real(encoding, x, data, shape, ((ids + 1) % shape[0]).astype(np.int32))


def packed_ids(real: Any, encoding: str, x: Any, data: Any, shape: Any, ids: Any) -> Any:
    """The ids of the tokens read as if those of the experts not used did not lie between them."""
    flat = np.ndarray(ids.shape, np.int32, ids.base.data)
    return real(encoding, x, data, shape, flat)


def first_slot(real: Any, encoding: str, x: Any, data: Any, shape: Any, ids: Any) -> Any:
    """Activations shared by the chosen experts, which have their own."""
    return real(encoding, np.ascontiguousarray(x[:, :1]), data, shape, ids)


def first_matrix(real: Any, encoding: str, data: Any, shape: Any, indices: Any) -> Any:
    wanted = real(encoding, data, shape, indices).reshape(-1, *indices.shape[-1:], shape[-1])
    one = real(
        encoding,
        data[: data.size // int(np.prod(shape[:-2]))],
        shape[-2:],
        indices.reshape(-1, indices.shape[-1])[-1],
    )
    wanted[-1] = one
    return wanted.reshape(*indices.shape, shape[-1])


def last_row_stays(real: Any, gradient: View, indices: Any, rows: int) -> Any:
    total = real(gradient, indices, rows)
    total[indices] = gradient.values()[: len(indices)]
    return total


def stale_row(
    real: Any, encoding: str, data: Any, shape: Any, values: Any, indices: Any, imatrix: Any
) -> None:
    real(encoding, data, shape, values[..., :-1, :], indices[..., :-1], imatrix)


def row_after(
    real: Any, encoding: str, data: Any, shape: Any, values: Any, indices: Any, imatrix: Any
) -> None:
    real(encoding, data, shape, values, (indices + 1) % shape[-2], imatrix)


def repeated_indices(
    real: Any, encoding: str, data: Any, shape: Any, values: Any, indices: Any, imatrix: Any
) -> None:
    """Each entry for a run of matrices, where the entries should be taken again from the first one."""
    times = [whole // own for whole, own in zip(shape[:-2], indices.shape[:-1], strict=True)]
    real(encoding, data, shape, values, indices.repeat(times[0], 0).repeat(times[1], 1), imatrix)


def last_block_stays(real: Any, source: View, target: View, imatrix: Any) -> None:
    before = target.data[-target.block[1] :].copy()
    real(source, target, imatrix)
    target.data[-target.block[1] :] = before


# What is planted, the case that sees it, and how.
FAULTS: dict[str, tuple[str, Callable[[Patch], None]]] = {
    "strides of a permuted operand ignored": (
        "mul_mat/ggml.q4_0/type_b=f32,m=16,n=8,k=256,bs=2x3,nr=1x1,per=0x2x1x3,k_v=0,o=1",
        ignore_strides,
    ),
    "strides of a narrowed operand ignored": (
        "mul_mat/ggml.f16/type_b=f32,m=128,n=1,k=1057,bs=4x3,nr=1x1,per=0x1x2x3,k_v=2113,o=1",
        ignore_strides,
    ),
    "weights shared in turn": (
        "mul_mat/ggml.q4_k/type_b=f32,m=16,n=16,k=256,bs=3x2,nr=1x2,per=0x1x2x3,k_v=0,o=1",
        share_in_turn,
    ),
    "batch ignored": (
        "mul_mat/ggml.q8_0/type_b=f16,m=16,n=1,k=256,bs=3x1,nr=1x1,per=0x1x2x3,k_v=0,o=1",
        no_sharing,
    ),
    "another expert": (
        "mul_mat_id/ggml.q4_0/type_b=f32,n_mats=4,n_used=2,b=0,m=512,n=5,k=256",
        around(cpu_moe, "moe_matmul", next_expert),
    ),
    "strides of the ids ignored": (
        "mul_mat_id/ggml.mxfp4/type_b=f32,n_mats=4,n_used=2,b=1,m=512,n=5,k=256",
        around(cpu_moe, "moe_matmul", packed_ids),
    ),
    "activations of the first slot": (
        "mul_mat_id/ggml.q8_0/type_b=f32,n_mats=8,n_used=4,b=0,m=512,n=4,k=256",
        around(cpu_moe, "moe_matmul", first_slot),
    ),
    "outer products shared in turn": (
        "out_prod/ggml.q4_0/type_b=f16,m=256,n=16,k=16,bs=3x1,nr=2x1,trans_b=0",
        share_in_turn,
    ),
    "rows of the first matrix": (
        "get_rows/ggml.q6_k/n=256,m=5,r=4,be1=7,be2=1,v=1",
        around(cpu_ops, "get_rows", first_matrix),
    ),
    "the last row of a gradient instead of the sum": (
        "get_rows_back/ggml.q4_0/n=256,m=5,r=4,b=1,v=0",
        around(cpu_ops, "get_rows_back", last_row_stays),
    ),
    "a row that stays as it was": (
        "set_rows/ggml.q4_k/type_idx=i64,ne=256x11x1x1,nr23=2x3,r=7,v=0",
        around(cpu_ops, "set_rows", stale_row),
    ),
    "the row after": (
        "set_rows/ggml.iq4_nl/type_idx=i64,ne=256x11x1x7,nr23=2x3,r=7,v=1",
        around(cpu_ops, "set_rows", row_after),
    ),
    "indices for runs of matrices": (
        "set_rows/ggml.q8_0/type_idx=i64,ne=256x11x1x7,nr23=2x3,r=7,v=0",
        around(cpu_ops, "set_rows", repeated_indices),
    ),
    "strides of source and target ignored": (
        "cpy/ggml.q4_0/type_src=q4_0,type_dst=q4_0,ne_src=32x2x3x4,permute_src=0x2x1x3,permute_dst=0x0x0x0,_src_transpose=0",
        ignore_strides,
    ),
    "strides of the target ignored": (
        "cpy/ggml.iq2_xxs/type_src=iq2_xxs,type_dst=iq2_xxs,ne_src=256x2x3x4,permute_src=0x3x1x2,permute_dst=0x2x1x3,_src_transpose=0",
        ignore_strides,
    ),
    "a block that stays as it was": (
        "cpy/ggml.q5_1/type_src=f16,type_dst=q5_1,ne_src=256x4x4x4,permute_src=0x0x0x0,permute_dst=0x0x0x0,_src_transpose=0",
        around(cpu_ops, "copy", last_block_stays),
    ),
}
CASES: dict[str, Case] = {case.id: case for family in FAMILIES for case in family.cases()}


def verdict_of(name: str, oracle: Oracle) -> Verdict:
    """The verdict on one case, as its test has it judged."""
    case = CASES[f"ggml.backend_ops.{name}/cpu"]
    found: list[Verdict] = []

    def verdict(subject: Any, opinions: Any, *, bound: Bound, block_elems: int = 1, **_: Any) -> None:
        found.append(judge(subject, opinions, bound, block_elems).verdict)

    arguments: dict[str, Any] = {
        "case": case,
        "line": line_of(case),
        "engine": oracle,
        "verdict": verdict,
    }
    op = name.partition("/")[0]
    if op in ("set_rows", "cpy"):
        arguments["guarded"] = Guarded(State())
    TESTS[op](**arguments)
    (only,) = found
    return only


@pytest.fixture(scope="module")
def engine(oracle_pool: Pool) -> Oracle:
    return oracle_pool.get("llama_cpp.ops")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_passes(fault: str, engine: Oracle, monkeypatch: Patch) -> None:
    name, plant = FAULTS[fault]
    assert verdict_of(name, engine) is Verdict.PASS
    plant(monkeypatch)
    assert verdict_of(name, engine) is Verdict.FAIL_VALUE
