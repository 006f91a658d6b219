"""What a subject returns is taken as it is or refused by name, never converted in silence."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import UsageProblem
from harness.ladder.tensor import compare_tensor
from harness.subjects.tests.conftest import F32, RIGHT, SHAPE, decode
from harness.tests.test_compare_robust import StubJudge
from harness.verdicts import Verdict
from oracles.worker_process import ProviderError


def failure(subject, source, **more):
    with pytest.raises(ProviderError) as caught:
        decode(subject(source), **more)
    return caught.value


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (f"{RIGHT}.astype(object)", "object"),
        (f"{RIGHT} > 1", "bool"),
        (f"{RIGHT}.astype(np.complex64)", "complex64"),
        ("np.zeros(shape, [('a', 'f4'), ('b', 'i4')])", "[('a', '<f4'), ('b', '<i4')]"),
        (f"{RIGHT}.astype('>f4')", ">f4"),
        (f"{RIGHT}.astype(np.float16)", "float16"),
        ("'seven'", "<U5"),
        ("{}", "dict"),
        ("(row for row in data)", "generator"),
        (f"np.ma.masked_array({RIGHT}, mask=False)", "MaskedArray"),
    ],
)
def test_a_result_of_another_dtype_is_refused_with_the_dtype_named(subject, returned, words):
    error = failure(subject, f"def dequantize(encoding, data, shape):\n    return {returned}\n")
    assert error.verdict is Verdict.FAIL_DTYPE
    assert words in error.message


def test_a_function_that_was_declared_async_is_refused_by_name(subject):
    error = failure(subject, "async def dequantize(encoding, data, shape):\n    return None\n")
    assert (error.verdict, "a coroutine" in error.message) == (Verdict.FAIL_DTYPE, True)


@pytest.mark.parametrize("returned", ["np.float32(1)", "1.5", f"{RIGHT}.reshape(-1)", f"{RIGHT}.T"])
def test_a_scalar_or_another_shape_is_fail_shape(subject, returned):
    error = failure(subject, f"def dequantize(encoding, data, shape):\n    return {returned}\n")
    assert error.verdict is Verdict.FAIL_SHAPE
    assert "wanted [2, 4]" in error.message


@pytest.mark.parametrize("returned", [f"np.matrix({RIGHT})", f"np.asfortranarray({RIGHT})", f"{RIGHT}[:, :]"])
def test_any_layout_and_subclass_of_a_float32_array_is_taken(subject, returned):
    source = f"def dequantize(encoding, data, shape):\n    return {returned}\n"
    assert decode(subject(source)).values.tolist() == np.arange(8).reshape(SHAPE).tolist()


def test_an_element_that_is_never_written_is_found_where_nan_is_right(subject):
    values = np.arange(8, dtype=np.float32)
    values[5:7] = np.array([0xFFFFFFFF] * 2, np.uint32).view(np.float32)
    right = f"""
        def dequantize(encoding, data, shape, out):
            out[:] = {RIGHT}
    """
    assert np.isnan(decode(subject(right, name="right.py"), values.reshape(SHAPE)).values).sum() == 2
    left_out = """
        def dequantize(encoding, data, shape, out):
            out.reshape(-1)[:6] = np.frombuffer(data, '<f4')[:6]
            out.reshape(-1)[7:] = 7
    """
    started, data = subject(left_out), values.view(np.uint8)
    outcome = compare_tensor(F32, data, SHAPE, started, [StubJudge("engine")], repeat=1, timeout=30)
    assert outcome.verdict is Verdict.FAIL_NONFINITE
    assert "1 elements were never written, the first at 6" in outcome.message


def test_a_callable_without_a_signature_has_no_out(subject):
    # `max` of an encoding, bytes and a shape raises, which costs the tensor and not the start.
    started = subject("dequantize = max\n")
    with pytest.raises(ProviderError, match="TypeError") as caught:
        decode(started)
    assert caught.value.verdict is Verdict.ERROR_RUN


@pytest.mark.parametrize("parameters", ["*out", "**out"])
def test_a_catch_all_that_is_called_out_is_no_output(subject, parameters):
    source = f"def dequantize(encoding, data, shape, {parameters}):\n    assert not out\n    return {RIGHT}\n"
    assert decode(subject(source)).values.shape == SHAPE


def test_a_name_that_is_no_function_is_refused_at_the_start(subject):
    with pytest.raises(UsageProblem, match="TABLE is a list, not a function"):
        subject("TABLE = [1]\n", function="TABLE")


def test_a_subject_that_replaces_numpys_functions_does_not_blind_the_checks(subject):
    source = """
        np.array_equal = lambda *_: True
        np.flatnonzero = lambda *_: np.zeros(0, int)
        np.may_share_memory = lambda *_: False

        def spoils(encoding, data, shape):
            data[0] ^= 1
            return np.zeros(shape, np.float32)

        def strays(encoding, data, shape, out):
            memory = out
            while memory.base is not None:
                memory = memory.base
            memory.reshape(-1)[4096 + out.nbytes] ^= 255
            out[:] = 0

        state = [0]
        def flips(encoding, data, shape):
            state[0] += 1
            return np.full(shape, state[0], np.float32)
    """
    for function, words in (("spoils", "changed the bytes of its input"), ("strays", "past the end")):
        with pytest.raises(ProviderError, match=words) as caught:
            decode(subject(source, function=function))
        assert caught.value.verdict is Verdict.FAIL_OOB
    assert decode(subject(source, function="flips"), repeat=2).unstable is not None
