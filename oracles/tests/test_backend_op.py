"""`backend_op` of llama_cpp.ops: graphs that contradict themselves cost one request, and the result is the op's own."""

import numpy as np
import pytest

from harness.verdicts import Verdict
from oracles.pool import ProviderError, Unsupported

F32 = {"type": "ggml.f32", "ne": [4, 2, 1, 1], "array": "a"}
A = {"a": np.arange(8, dtype=np.float32).reshape(2, 4)}


@pytest.fixture
def engine(real_pool):
    return real_pool.get("llama_cpp.ops")


def ask(engine, *nodes, arrays=A):
    return engine.call("backend_op", {"nodes": list(nodes)}, arrays).arrays["data"]


def test_a_product_is_not_that_of_its_operands(engine):
    b = {"type": "ggml.f32", "ne": [4, 3, 1, 1], "array": "b"}
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    data = ask(engine, F32, b, {"of": [0, 1], "op": "mul_mat"}, arrays={**A, "b": x})
    np.testing.assert_array_equal(data.view(np.float32).reshape(3, 2), x @ A["a"].T)


def test_a_permuted_source_is_copied_as_if_it_were_not(engine):
    target = {"type": "ggml.f32", "ne": [2, 4, 1, 1], "result": True}
    data = ask(engine, F32, {"of": [0]}, target, {"of": [1, 2], "op": "cpy"})
    np.testing.assert_array_equal(data.view(np.float32), A["a"].T.reshape(-1))
    order = ask(engine, F32, {"of": [0], "axes": [1, 0, 2, 3]}, target, {"of": [1, 2], "op": "cpy"})
    np.testing.assert_array_equal(order, data)


def test_what_an_op_leaves_alone_reads_as_written(engine):
    """The engine sets one row; the other keeps what it was given, or the filling where nothing was."""
    source = {"type": "ggml.f32", "ne": [4, 1, 1, 1], "array": "s"}
    index = {"type": "ggml.i32", "ne": [1, 1, 1, 1], "array": "i"}
    arrays = {"s": np.full((1, 4), 9, np.float32), "i": np.array([1], np.int32)}
    op = {"of": [0, 1, 2], "op": "set_rows"}
    kept = ask(engine, {**F32, "result": True}, source, index, op, arrays={**A, **arrays})
    np.testing.assert_array_equal(kept.view(np.float32), [0, 1, 2, 3, 9, 9, 9, 9])
    empty = {"type": "ggml.f32", "ne": [4, 2, 1, 1], "result": True}
    filled = ask(engine, empty, source, index, op, arrays=arrays)
    np.testing.assert_array_equal(filled[:16], 0xFF)
    np.testing.assert_array_equal(filled[16:].view(np.float32), 9)


def test_an_op_that_the_backend_does_not_take_is_run(engine):
    target = {"type": "ggml.iq1_s", "ne": [256, 1, 1, 1], "result": True}
    source = {"type": "ggml.f32", "ne": [256, 1, 1, 1], "array": "a"}
    with pytest.raises(Unsupported, match="CPU backend does not take this cpy"):
        ask(engine, source, target, {"of": [0, 1], "op": "cpy"}, arrays={"a": np.ones(256, np.float32)})


OP = {"of": [0, 0], "op": "mul_mat"}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([F32], "2 to 16 objects"),
        ([F32, F32], "the last node must be the op"),
        ([{**F32, "type": "ggml.q9"}, OP], "ggml has no type"),
        ([{**F32, "array": "z"}, OP], "the array 'z' is missing"),
        ([{**F32, "ne": [4, 2, 1]}, OP], "four sizes"),
        ([{**F32, "ne": [4, 2, 1, -1]}, OP], "no natural number"),
        ([{**F32, "ne": [4, 3, 1, 1]}, OP], "takes 48 bytes, the array 'a' has 32"),
        ([F32, {"of": [0, 1], "op": "mul_mat"}], "sources come after it"),
        ([F32, {"of": [0], "op": "mul_mat"}], "not its number of sources"),
        ([F32, {"of": [0, 0], "op": "ggml_free"}], "no op"),
        ([F32, {"of": [0], "axes": [0, 1, 2, 2]}, OP], "each once"),
        ([F32, {"of": [0], "ne": [4, 2, 1, 1], "nb": [16, 32], "offset": 0}, OP], "three strides"),
        ([F32, {"of": [0, 0]}, OP], "one source"),
        ([F32, {"from": 0}, OP], "none of a tensor, a view and an op"),
    ],
)
def test_a_graph_that_is_none_is_run(engine, nodes, said):
    with pytest.raises(ProviderError, match=said) as caught:
        ask(engine, *nodes)
    assert caught.value.kind == "bad_request"


@pytest.mark.parametrize(
    "nodes",
    [
        # A view that leaves its tensor, and operands of different widths: the engine ends the process.
        [
            F32,
            {"of": [0], "ne": [4, 2, 1, 1], "nb": [16, 32, 32], "offset": 64},
            {"of": [0, 1], "op": "mul_mat"},
        ],
        [F32, {"type": "ggml.f32", "ne": [8, 1, 1, 1], "array": "a"}, {"of": [0, 1], "op": "mul_mat"}],
    ],
)
def test_a_crash_of_the_engine_costs_the_request_after_it(engine, nodes):
    with pytest.raises(ProviderError) as caught:
        ask(engine, *nodes)
    assert caught.value.verdict is Verdict.ERROR_RUN
    assert ask(engine, F32, OP).nbytes == 16
