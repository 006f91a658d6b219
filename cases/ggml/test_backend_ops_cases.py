"""Ported from llama.cpp's test-backend-ops: each line of its list for seven ops, on our cpu kernels and the engine's graph.

The engine's op on the same tensors comes first. Where its CPU backend does not take them, it is given the same values in
float32 (an operand) or encodes and decodes the rows (a copy), and the definition of the op does the rest.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from cases.ggml.backend_ops import (
    CPY,
    CPY_I32,
    GET_ROWS,
    GET_ROWS_BACK,
    GET_ROWS_BACK_I32,
    GET_ROWS_I32,
    MUL_MAT,
    MUL_MAT_ID,
    OUT_PROD,
    SET_ROWS,
    encoding_of,
    line_of,
    number,
    numbers,
    upstream_bound,
)
from cases.ggml.backend_ops_judges import (
    batches,
    by_definition,
    copied,
    decode,
    experts,
    normalized_error,
    outer_products,
    picked,
    products,
    replaced,
    summed,
    widened,
)
from cases.ggml.backend_ops_tensors import Bytes, Source, Tensor, index_values, indices, run, whole
from cases.upstream.backend_ops import BackendOpCase
from harness.comparison.bounds import BIT_EXACT, Bound
from harness.evidence.case import Case
from harness.plugin.judging import Opinion
from harness.plugin.opinions import judge_of
from harness.plugin.verdict import CaseVerdict, Guarded
from kernels import cpu_batched, cpu_moe, cpu_ops, cpu_views
from kernels.cpu_views import INTEGERS, block_of
from kernels.quantizer import NEEDS_IMPORTANCE
from oracles.pool import Oracle, Pool


@pytest.fixture(scope="module")
def engine(oracle_pool: Pool) -> Oracle:
    """llama.cpp, with the CPU backend of its graphs."""
    return oracle_pool.get("llama_cpp.ops")


@pytest.fixture
def line(case: Case) -> BackendOpCase:
    """Upstream's line."""
    return line_of(case)


def named(line: BackendOpCase, key: str) -> str:
    return f"ggml.{str(line.params[key]).lower()}"


def floats(data: Bytes | None, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    assert data is not None, "the engine does not take float32 either"
    return data.view(np.float32).reshape(shape)


@pytest.mark.cases(MUL_MAT)
def test_a_product_of_batches_is_wrong(
    case: Case, line: BackendOpCase, engine: Oracle, verdict: CaseVerdict
) -> None:
    source = Source(engine, case.seed)
    m, n, k, padded = (number(line, name) for name in ("m", "n", "k", "k_v"))
    bs, nr, per = (numbers(line, name) for name in ("bs", "nr", "per"))
    sizes = {
        "a": (padded or k, m, bs[0], bs[1]),
        "b": (padded or k, n, bs[0] * nr[0], bs[1] * nr[1]),
    }
    a, b = (
        source.tensor(
            named(line, f"type_{name}"), [sizes[name][at] for at in per], name, shared=name == "a"
        ).permuted(per)
        for name in ("a", "b")
    )
    if padded:
        a, b = a.first(0, k), b.first(0, k)
    shape = (*b.ne[:0:-1], m)
    data = run(engine, "mul_mat", (a, b), 4 * math.prod(shape))
    if data is None:
        data = run(engine, "mul_mat", (a, widened(engine, b, "b")), 4 * math.prod(shape))
    x = decode(engine, b.encoding, b.blocks(), b.ne[::-1])
    exact, limit = products(engine, a.encoding, x, batches(a, b), (math.prod(shape[:-1]), m, k))
    judge_floats(
        cpu_batched.matmul(a.view, b.view),
        [floats(data, shape), exact.reshape(shape)],
        limit.reshape(shape),
        "kernels/cpu_batched.py:matmul",
        (case, line, engine, verdict),
    )


@pytest.mark.cases(MUL_MAT_ID)
def test_a_product_with_chosen_experts_is_wrong(
    case: Case, line: BackendOpCase, engine: Oracle, verdict: CaseVerdict
) -> None:
    source = Source(engine, case.seed)
    m, n, k, mats, used = (number(line, name) for name in ("m", "n", "k", "n_mats", "n_used"))
    a = source.tensor(named(line, "type_a"), (k, m, mats, 1), "a", shared=True)
    b = source.tensor(named(line, "type_b"), (k, 1 if number(line, "b") else used, n, 1), "b")
    chosen = np.stack([source.rng.permutation(mats) for _ in range(n)]).astype(np.int32)
    ids = indices(chosen, (mats, n, 1, 1), "ids")
    if used != mats:
        ids = ids.first(0, used)
    values = index_values(ids)[0]
    data = run(engine, "mul_mat_id", (a, b, ids), 4 * n * used * m)
    x = b.memory.view(np.float32).reshape(n, b.ne[1], k)
    exact, limit = products(engine, a.encoding, x, experts(a, b, values), (n * used, m, k))
    shape = (n, used, m)
    judge_floats(
        cpu_moe.moe_matmul(a.encoding, x, a.memory, (mats, m, k), values),
        [floats(data, shape), exact.reshape(shape)],
        limit.reshape(shape),
        "kernels/cpu_moe.py:moe_matmul",
        (case, line, engine, verdict),
    )


@pytest.mark.cases(OUT_PROD)
def test_an_outer_product_of_batches_is_wrong(
    case: Case, line: BackendOpCase, engine: Oracle, verdict: CaseVerdict
) -> None:
    source = Source(engine, case.seed)
    m, n, k = (number(line, name) for name in ("m", "n", "k"))
    bs, nr = numbers(line, "bs"), numbers(line, "nr")
    assert not number(line, "trans_b"), "upstream has no transposed operand here"
    a = source.tensor(named(line, "type_a"), (m, k, *bs), "a")
    b = source.tensor(named(line, "type_b"), (n, k, bs[0] * nr[0], bs[1] * nr[1]), "b")
    shape = (b.ne[3], b.ne[2], n, m)
    data = run(engine, "out_prod", (a, b), 4 * math.prod(shape))
    if data is None:
        data = run(
            engine, "out_prod", (widened(engine, a, "a"), widened(engine, b, "b")), 4 * math.prod(shape)
        )
    exact, limit = outer_products(engine, a, b)
    judge_floats(
        cpu_batched.out_prod(a.view, b.view),
        [floats(data, shape), exact],
        limit,
        "kernels/cpu_batched.py:out_prod",
        (case, line, engine, verdict),
    )


@pytest.mark.cases(GET_ROWS, GET_ROWS_I32)
def test_rows_are_taken_from_the_wrong_place(
    case: Case, line: BackendOpCase, engine: Oracle, verdict: CaseVerdict
) -> None:
    source = Source(engine, case.seed)
    n, m, r, be1, be2 = (number(line, name) for name in ("n", "m", "r", "be1", "be2"))
    a = source.tensor(encoding_of(line) or named(line, "type"), (n, m, be1, be2), "a")
    rows = source.integers(m, (r, be1, be2, 1), "rows")
    if number(line, "v"):
        rows = rows.first(0, r // 2)
    shape = (be2, be1, rows.ne[0], n)
    data = run(engine, "get_rows", (a, rows), 4 * math.prod(shape))
    taken = picked(a, rows)
    if a.encoding in INTEGERS:
        # Integers stay what they are: the same rows of 4 bytes.
        subject = cpu_ops.get_rows("ggml.f32", a.memory, (be2, be1, m, n), index_values(rows)).view(np.int32)
        assert data is not None
        answers = [data.view(np.int32).reshape(shape), taken.view(np.int32).reshape(shape)]
    else:
        subject = cpu_ops.get_rows(a.encoding, a.memory, (be2, be1, m, n), index_values(rows))
        answers = [floats(data, shape), decode(engine, a.encoding, taken, shape)]
    verdict(
        subject,
        [Opinion(judge_of(engine), answers[0]), by_definition(answers[1])],
        bound=BIT_EXACT,
        kernel="kernels/cpu_ops.py:get_rows",
        block_elems=block_of(a.encoding)[0],
        upstream_bound_holds=normalized_error(answers[0], subject) <= upstream_bound(line),
    )


@pytest.mark.cases(GET_ROWS_BACK, GET_ROWS_BACK_I32)
def test_a_gradient_of_rows_lands_in_the_wrong_row(
    case: Case, line: BackendOpCase, engine: Oracle, verdict: CaseVerdict
) -> None:
    source = Source(engine, case.seed)
    n, m, r = (number(line, name) for name in ("n", "m", "r"))
    assert number(line, "b") == 1, "upstream has no batch here"
    gradient = source.tensor(encoding_of(line) or named(line, "type"), (n, r, 1, 1), "gradient")
    forward = source.tensor(gradient.encoding, (n, m, 1, 1), "forward")
    rows = source.integers(m, (r, 1, 1, 1), "rows")
    if number(line, "v"):
        rows = rows.first(0, r // 2)
    data = run(engine, "get_rows_back", (gradient, rows, forward), 4 * m * n)
    if data is None:
        wide = [widened(engine, tensor, str(tensor.array)) for tensor in (gradient, forward)]
        data = run(engine, "get_rows_back", (wide[0], rows, wide[1]), 4 * m * n)
    index = index_values(rows)[0, 0]
    values = decode(engine, gradient.encoding, gradient.blocks(), (r, n))
    total, limit = summed(values, index, m, r)
    flat = cpu_views.contiguous(gradient.encoding, gradient.memory, (r, n))
    judge_floats(
        cpu_ops.get_rows_back(flat, index, m),
        [floats(data, (m, n)), total],
        limit,
        "kernels/cpu_ops.py:get_rows_back",
        (case, line, engine, verdict),
    )


@pytest.mark.cases(SET_ROWS)
def test_rows_are_set_in_the_wrong_place(
    case: Case, line: BackendOpCase, engine: Oracle, verdict: CaseVerdict, guarded: Guarded
) -> None:
    source = Source(engine, case.seed)
    ne, nr, r = numbers(line, "ne"), numbers(line, "nr23"), number(line, "r")
    outer = (ne[2] * nr[0], ne[3] * nr[1])
    target = source.tensor(named(line, "type"), (ne[0], ne[1], *outer), "target")
    target = whole(target.encoding, target.memory, target.ne, "target", result=True)
    values = source.tensor("ggml.f32", (ne[0], r, *outer), "values")
    # Each matrix's rows are different ones: of rows written twice upstream leaves open which one stays.
    different = [source.rng.permutation(ne[1])[:r] for _ in range(ne[2] * ne[3])]
    dtype = np.int32 if line.params["type_idx"] == "i32" else np.int64
    rows = indices(np.stack(different).astype(dtype), (r, ne[2], ne[3], 1), "rows")
    if number(line, "v"):
        values, rows = values.first(1, r // 2), rows.first(0, r // 2)
    data = run(engine, "set_rows", (target, values, rows), target.memory.size)
    memory = guarded.input(target.memory)
    cpu_ops.set_rows(
        target.encoding,
        memory,
        target.ne[::-1],
        values.view.values(),
        index_values(rows),
        importance(target.encoding, ne[0]),
    )
    judge_bytes(
        memory,
        data,
        replaced(engine, target, values, rows),
        target,
        "kernels/cpu_ops.py:set_rows",
        (case, line, engine, verdict),
    )


@pytest.mark.cases(CPY, CPY_I32)
def test_a_copy_writes_the_wrong_bytes(
    case: Case, line: BackendOpCase, engine: Oracle, verdict: CaseVerdict, guarded: Guarded
) -> None:
    source = Source(engine, case.seed)
    start = source.tensor(named(line, "type_src"), numbers(line, "ne_src"), "source", largest=150.0)
    origin = start.permuted(numbers(line, "permute_src")) if any(numbers(line, "permute_src")) else start
    origin = origin.transposed() if number(line, "_src_transpose") else origin
    ne = numbers(line, "ne_dst") if "ne_dst" in line.params else origin.ne
    elems, size = block_of(named(line, "type_dst"))
    memory = guarded.output(np.uint8, (math.prod(ne) // elems * size,))
    target = whole(named(line, "type_dst"), memory, ne, None, result=True)
    if any(numbers(line, "permute_dst")):
        target = target.permuted(numbers(line, "permute_dst"))
    data = run(engine, "cpy", (origin, target), memory.size)
    wanted = copied(engine, origin, target)
    cpu_ops.copy(origin.view, target.view, importance(target.encoding, target.ne[0]))
    judge_bytes(memory, data, wanted, target, "kernels/cpu_ops.py:copy", (case, line, engine, verdict))


Context = tuple[Case, BackendOpCase, Oracle, CaseVerdict]


def judge_floats(
    subject: npt.NDArray[np.float32],
    answers: list[npt.NDArray[np.floating]],
    limit: npt.NDArray[np.float64],
    kernel: str,
    context: Context,
) -> None:
    """The engine's answer and the exact one, under our bound, and upstream's beside it."""
    case, line, engine, verdict = context
    engines, exact = answers
    verdict(
        subject,
        [Opinion(judge_of(engine), engines), by_definition(exact.astype(np.float32))],
        bound=Bound(limit, case.bound, upstream_bound(line)),
        kernel=kernel,
        upstream_bound_holds=normalized_error(engines, subject) <= upstream_bound(line),
    )


def judge_bytes(
    subject: Bytes, data: Bytes | None, wanted: Bytes, target: Tensor, kernel: str, context: Context
) -> None:
    """Bytes against the engine's op, where it has one, and against the definition, whose rows the engine encoded."""
    case, line, engine, verdict = context
    elems, size = block_of(target.encoding)
    rows = (-1, size * max(1, target.nodes[0]["ne"][0] // elems))
    answers = [wanted] if data is None else [data, wanted]
    opinions = [Opinion(judge_of(engine), answers[0].reshape(rows))]
    opinions += [by_definition(answer.reshape(rows)) for answer in answers[1:]]
    same = np.array_equal(subject, answers[0])
    holds = same or normalized_error(*_decoded(engine, target, answers[0], subject)) <= upstream_bound(line)
    verdict(
        subject.reshape(rows),
        opinions,
        bound=Bound(None, case.bound, upstream_bound(line)),
        kernel=kernel,
        block_elems=size,
        upstream_bound_holds=holds,
    )


def _decoded(engine: Oracle, target: Tensor, *sides: Bytes) -> list[npt.NDArray[np.float32]]:
    n = target.memory.size // block_of(target.encoding)[1] * block_of(target.encoding)[0]
    return [decode(engine, target.encoding, side, (n,)) for side in sides]


def importance(encoding: str, cols: int) -> npt.NDArray[np.float32] | None:
    """Ones, for an encoding that is quantized with an importance matrix only: no op of upstream's has one to give."""
    return np.ones(cols, np.float32) if encoding in NEEDS_IMPORTANCE else None
