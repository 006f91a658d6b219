"""A worker that misbehaves costs one case: its verdict, its message, its stderr, and the next call works."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from harness.verdicts import Verdict
from oracles import wire
from oracles.tests.processes import wait_for
from oracles.worker_process import ProviderError, Unsupported, Worker

WORKERS = Path(__file__).parent / "workers"
VALUES = {"values": ("float32", (2, 8))}


def start(file, *arguments, timeout=20.0):
    return Worker.start([sys.executable, str(WORKERS / file), *arguments], name="fixture", timeout=timeout)


@pytest.fixture
def worker():
    started = start("misbehave.py")
    yield started
    started.close()


def fail(worker, op, params=None, *, timeout=20.0, expect=None):
    with pytest.raises(ProviderError) as caught:
        worker.call(op, params, timeout=timeout, expect=expect)
    return caught.value


def works(worker):
    sent = np.arange(16, dtype=np.float32).reshape(2, 8)
    answer = worker.call("echo", {"n": 1}, {"values": sent}, timeout=20, expect=VALUES)
    return answer.result == {"n": 1} and np.array_equal(answer.arrays["values"], sent)


def test_an_answer_holds_result_arrays_and_the_seconds_of_the_op(worker):
    sent = np.arange(5, dtype=np.int16)
    answer = worker.call("echo", {"a": [1, "b"]}, {"x": sent, "y": np.zeros((0, 3), np.uint8)}, timeout=20)
    assert answer.result == {"a": [1, "b"]}
    assert answer.seconds == 0.5
    assert answer.arrays["x"].tolist() == sent.tolist()
    assert answer.arrays["y"].shape == (0, 3)


def test_a_crash_is_error_run_with_its_stderr_and_costs_one_case(worker):
    before = worker.pid
    error = fail(worker, "crash")
    assert error.verdict is Verdict.ERROR_RUN
    assert "SIGSEGV" in error.message
    assert "null pointer" in error.stderr
    assert works(worker)
    assert worker.pid != before


def test_an_exit_names_its_status(worker):
    error = fail(worker, "leave", {"status": 9})
    assert error.verdict is Verdict.ERROR_RUN
    assert "exit status 9" in error.message
    assert works(worker)


def test_a_kill_in_the_middle_of_a_call_costs_one_case(worker):
    victim = worker.pid
    timer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    timer.start()
    error = fail(worker, "hang")
    timer.join()
    assert error.verdict is Verdict.ERROR_RUN
    assert "SIGKILL" in error.message
    assert works(worker)


def test_a_kill_between_two_calls_costs_nothing(worker):
    os.kill(worker.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert works(worker)


def test_a_hang_is_timeout_and_the_process_is_gone(worker):
    victim = worker.pid
    start_time = time.monotonic()
    error = fail(worker, "hang", timeout=0.4)
    assert error.verdict is Verdict.TIMEOUT
    assert time.monotonic() - start_time < 5
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)
    assert works(worker)


def test_a_hang_leaves_no_child_of_the_engine_behind(worker):
    error = fail(worker, "start_a_child", timeout=0.6)
    assert error.verdict is Verdict.TIMEOUT
    child = int(error.stderr.split("child ")[1].split()[0])
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text():
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child lives on")


@pytest.mark.parametrize(
    ("op", "verdict", "words"),
    [
        ("wrong_shape", Verdict.FAIL_SHAPE, "[4, 4], wanted [2, 8]"),
        ("wrong_dtype", Verdict.FAIL_DTYPE, "float64, wanted float32"),
        ("missing_array", Verdict.FAIL_SHAPE, "'valeus' was not asked for"),
    ],
)
def test_an_answer_of_another_shape_or_dtype_has_its_own_verdict(worker, op, verdict, words):
    error = fail(worker, op, expect=VALUES)
    assert error.verdict is verdict
    assert words in error.message
    assert works(worker)


def test_prints_of_an_engine_do_not_reach_the_stream(worker):
    answer = worker.call("print_to_stdout", timeout=20, expect=VALUES)
    assert answer.arrays["values"].tolist() == np.ones((2, 8)).tolist()
    assert "a print of the engine in C" in worker.stderr_tail()


def test_an_engine_that_reads_its_input_does_not_eat_a_request(worker):
    assert worker.call("read_stdin", timeout=20).result == {"read": 0}
    assert works(worker)


def test_an_exception_keeps_its_words_without_terminal_codes(worker):
    error = fail(worker, "raise_error")
    assert error.verdict is Verdict.ERROR_RUN
    assert error.kind == "exception"
    assert "ValueError: the engine's own words \\x1b[31m" in error.message
    assert "raise_error" in error.stderr
    assert works(worker)


def test_a_refusal_does_not_cost_the_process(worker):
    before = worker.pid
    assert fail(worker, "refuse").kind == "bad_request"
    assert worker.pid == before


def test_an_op_that_does_not_exist_is_unsupported_and_no_error(worker):
    with pytest.raises(Unsupported) as caught:
        worker.call("matmul", timeout=20)
    assert caught.value.verdict is Verdict.NOT_RUN
    assert works(worker)


def test_a_result_that_is_no_json_is_an_exception_and_no_torn_stream(worker):
    assert fail(worker, "nan_in_result").kind == "exception"
    assert works(worker)


@pytest.mark.parametrize(("at", "count", "side"), [(16, 1, "after"), (-1, 1, "before")])
def test_a_write_one_byte_past_either_end_is_out_of_bounds(worker, at, count, side):
    error = fail(worker, "write_after_the_end", {"at": at, "bytes": count})
    assert error.verdict is Verdict.FAIL_OOB
    assert f"1 bytes {side}" in error.message


def test_what_an_engine_leaves_unwritten_is_nan(worker):
    answer = worker.call("write_after_the_end", {"at": 0, "bytes": 8}, timeout=20)
    assert answer.arrays["values"][:2].tolist() == [0, 0]
    assert np.isnan(answer.arrays["values"][2:]).all()


def test_the_stderr_of_one_failure_is_not_blamed_for_the_next(worker):
    assert "null pointer" in fail(worker, "crash").stderr
    assert "null pointer" not in fail(worker, "leave", {"status": 1}).stderr


def test_a_chattering_engine_fills_neither_disk_nor_memory(worker):
    for _ in range(3):
        worker.call("chatter", {"lines": 6000}, timeout=20)
    assert 0 < len(worker.stderr_tail()) <= 8 << 10


def test_the_end_of_standard_error_is_kept_and_not_its_beginning(worker):
    worker.call("chatter", {"lines": 200}, timeout=20)
    error = fail(worker, "crash")
    assert "null pointer" in error.stderr
    assert "xxx" not in error.stderr


@pytest.mark.parametrize(
    ("refused", "verdict"), [("WrongShape", Verdict.FAIL_SHAPE), ("WrongDtype", Verdict.FAIL_DTYPE)]
)
def test_a_result_that_the_worker_itself_refuses_has_its_own_verdict(worker, refused, verdict):
    before = worker.pid
    assert fail(worker, "refuse", {"with": refused}).verdict is verdict
    assert worker.pid == before


def test_words_that_an_engine_never_writes_are_its_error_and_poison_that_it_writes_is_not(worker):
    error = fail(worker, "fill", {"words": [0, 1, 3]})
    assert error.verdict is Verdict.ERROR_RUN
    assert "never wrote 1 words of 4 bytes of its 16-byte output, the first at byte 8" in error.message
    answer = worker.call("fill", {"words": [0, 1, 2, 3]}, timeout=20)
    assert answer.arrays["values"].view(np.uint32).tolist() == [0xFFFFFFFF] * 4


def test_a_fill_of_the_guards_with_the_poison_is_seen(worker):
    error = fail(worker, "write_after_the_end", {"at": 16, "bytes": 4, "value": 255})
    assert error.verdict is Verdict.FAIL_OOB


def test_memory_without_end_costs_one_call_and_not_the_machine(worker):
    worker.call("limit_memory", timeout=20)
    error = fail(worker, "allocate", {"bytes": 17 << 30})
    assert error.verdict is Verdict.ERROR_RUN
    assert "MemoryError" in error.message
    assert works(worker)


def test_a_worker_started_by_a_thread_that_has_ended_lives_on(worker):
    os.kill(worker.pid, signal.SIGKILL)
    wait_for(lambda: worker.pid is None)
    thread = threading.Thread(target=works, args=(worker,))
    thread.start()
    thread.join()
    before = worker.pid
    time.sleep(0.2)
    assert works(worker)
    assert worker.pid == before


def test_an_array_is_read_into_the_one_given(worker):
    sent, out = np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32)
    answer = worker.call("echo", {}, {"values": sent}, timeout=20, expect=VALUES, into={"values": out})
    assert answer.arrays["values"] is out
    assert out.tolist() == sent.tolist()


def test_calls_of_several_threads_do_not_mix(worker):
    got = {}

    def ask(number):
        for _ in range(20):
            sent = np.full(1000, number)
            got[number] = worker.call("echo", {"n": number}, {"x": sent}, timeout=20)
            assert got[number].arrays["x"].tolist() == sent.tolist()

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: answer.result["n"] for n, answer in got.items()} == {n: n for n in range(4)}


def test_an_interrupt_in_the_middle_of_a_call_leaves_a_usable_worker(worker):
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        worker.call("hang", timeout=20)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert works(worker)


def test_a_closed_worker_is_gone_and_can_be_closed_again(worker):
    victim = worker.pid
    worker.close()
    worker.close()
    assert worker.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)


def test_a_command_that_does_not_exist_is_error_run():
    with pytest.raises(ProviderError, match="could not be started: No such file"):
        Worker.start(["/nonexistent/python"], name="nobody", timeout=5)


def test_a_command_that_dies_at_once_keeps_its_words():
    with pytest.raises(ProviderError, match="died during hello: exit status 7") as caught:
        Worker.start(
            [sys.executable, "-c", "import sys; print('no engine here', file=sys.stderr); sys.exit(7)"],
            name="dead",
            timeout=20,
        )
    assert "no engine here" in caught.value.stderr


def test_a_protocol_of_another_version_is_refused():
    with pytest.raises(ProviderError, match="speaks protocol 0, wanted 1"):
        start("raw.py", "old_protocol")


GARBAGE = (
    *(
        "other_magic",
        "header_of_4_gib",
        "not_json",
        "json_list",
        "json_nan",
        "json_deep",
        "array_of_a_terabyte",
    ),
    *("array_of_objects", "negative_size", "size_that_is_true", "sizes_that_overflow", "hundred_arrays"),
    *("same_name_twice", "other_id", "neither_ok_nor_error", "result_is_a_list", "error_with_arrays"),
)


@pytest.mark.parametrize("mode", GARBAGE)
def test_garbage_is_error_run_without_an_allocation(mode, monkeypatch):
    worker = start("raw.py", mode)
    monkeypatch.setattr(wire.ArraySpec, "allocate", lambda self: pytest.fail("allocated"))
    error = fail(worker, "anything")
    assert error.verdict is Verdict.ERROR_RUN
    assert "bytes that are no answer" in error.message
    assert worker.pid is None
    worker.close()


def test_an_array_larger_than_asked_for_is_never_allocated(monkeypatch):
    worker = start("raw.py", "array_of_unasked_shape")
    monkeypatch.setattr(wire.ArraySpec, "allocate", lambda self: pytest.fail("allocated"))
    assert fail(worker, "anything", expect=VALUES).verdict is Verdict.FAIL_SHAPE
    with pytest.raises(ProviderError, match="over the limit of 1000"):
        worker.call("anything", timeout=20, limit=1000)
    worker.close()


def test_a_stream_that_ends_inside_an_array_is_error_run():
    worker = start("raw.py", "half_an_array")
    error = fail(worker, "anything", expect=VALUES)
    assert error.verdict is Verdict.ERROR_RUN
    assert "exit status 0" in error.message
    worker.close()


def test_an_array_that_stops_coming_is_timeout():
    worker = start("raw.py", "stall")
    assert fail(worker, "anything", expect=VALUES, timeout=0.5).verdict is Verdict.TIMEOUT
    worker.close()


def test_an_answer_that_drips_byte_by_byte_is_read():
    worker = start("raw.py", "drip")
    assert worker.call("anything", timeout=20, expect=VALUES).arrays["values"].tolist() == [[0.0] * 8] * 2
    worker.close()


def test_a_worker_that_never_reads_a_large_request_is_timeout_and_no_deadlock():
    worker = start("raw.py", "never_reads")
    with pytest.raises(ProviderError) as caught:
        worker.call("anything", {}, {"x": np.zeros(8 << 20, np.uint8)}, timeout=0.5)
    assert caught.value.verdict is Verdict.TIMEOUT
    worker.close()


def test_an_answer_before_the_request_was_read_is_kept_and_the_worker_started_anew():
    worker = start("raw.py", "answers_before_reading")
    with pytest.raises(ProviderError, match="too large for me") as caught:
        worker.call("anything", {}, {"x": np.zeros(8 << 20, np.uint8)}, timeout=20)
    assert caught.value.kind == "bad_request"
    assert worker.pid is None
    worker.close()
