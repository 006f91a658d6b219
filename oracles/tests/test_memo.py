"""The memo never gives an answer to another question, and never one that changed on disk."""

import subprocess
import sys

import numpy as np
import pytest
import yaml

from harness.errors import BadInput
from harness.paths import REPOSITORY
from oracles import memo as memo_module
from oracles.memo import Memo
from oracles.pins import Remembered, load_pins
from oracles.pool import Answer, Oracle, Pool, ProviderError
from oracles.tests.conftest import PINS

DATA = np.arange(34, dtype=np.uint8)
VALUES = {
    "values": np.linspace(-1, 1, 8192, dtype=np.float32),
    "few": np.arange(6, dtype=np.int16).reshape(2, 3),
    "empty": np.zeros((0, 3), np.int64),
}
SPECS = {"values": ("float32", (8192,)), "few": ("int16", (2, 3)), "empty": ("int64", (0, 3))}
IDENTITY = {
    "pin": "engine",
    "version": "1",
    "wheels": {"engine": {"sha256": "a" * 64}},
    "worker_sha256": "b" * 64,
    "known_answers_sha256": "c" * 64,
}
REMEMBERED = Remembered(any_cpu=("dequantize",), same_cpu=("vec_dot",))


class Slow:
    """A worker that counts how often it is asked."""

    hello = {"version": "1"}  # noqa: RUF012

    def __init__(self, arrays=VALUES, error=None):
        self.arrays, self.error, self.calls = arrays, error, 0

    def call(self, op, params, arrays, *, timeout, expect, into=None):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return Answer({"call": self.calls}, dict(self.arrays), 1.0)


def oracle_of(memo, worker, **changes):
    return Oracle("engine", worker, {**IDENTITY, **changes}, (), frozenset(), memo, REMEMBERED)


def ask(oracle, op="dequantize", data=DATA, encoding="ggml.q8_0", expect=None, into=None):
    return oracle.call(op, {"encoding": encoding}, {"data": data}, expect=expect, into=into)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "memo"


@pytest.fixture
def worker():
    return Slow()


def test_a_remembered_answer_has_other_bits(folder, worker):
    live = ask(oracle_of(Memo(folder), worker))
    memo = Memo(folder)
    found = ask(oracle_of(memo, worker))
    assert worker.calls == 1
    assert found.result == live.result == {"call": 1}
    assert {n: (a.dtype, a.shape, a.tobytes()) for n, a in found.arrays.items()} == {
        n: (a.dtype, a.shape, a.tobytes()) for n, a in live.arrays.items()
    }
    assert (memo.answered, memo.hits) == ({"engine"}, 1)


def test_a_live_answer_is_called_remembered(folder, worker):
    memo = Memo(folder)
    ask(oracle_of(memo, worker))
    assert memo.answered == set()


QUESTIONS = {
    "another pin": ({"version": "2"}, {}),
    "another wheel": ({"wheels": {"engine": {"sha256": "d" * 64}}}, {}),
    "another worker": ({"worker_sha256": "d" * 64}, {}),
    "another op": ({}, {"op": "vec_dot"}),
    "another parameter": ({}, {"encoding": "ggml.q8_1"}),
    "another byte": ({}, {"data": DATA[::-1]}),
    "another shape": ({}, {"data": DATA.reshape(2, 17)}),
    "another dtype": ({}, {"data": DATA.view(np.int8)}),
    "one byte less": ({}, {"data": DATA[:-1]}),
}


@pytest.mark.parametrize(("identity", "request_"), QUESTIONS.values(), ids=QUESTIONS)
def test_an_answer_is_given_to_another_question(identity, request_, folder, worker):
    ask(oracle_of(Memo(folder), worker))
    ask(oracle_of(Memo(folder), worker, **identity), **request_)
    assert worker.calls == 2


def test_known_answers_of_another_encoding_drive_out_every_answer(folder, worker):
    ask(oracle_of(Memo(folder), worker))
    ask(oracle_of(Memo(folder), worker, known_answers_sha256="e" * 64))
    assert worker.calls == 1


@pytest.mark.parametrize(("op", "calls"), [("dequantize", 1), ("vec_dot", 2)])
def test_another_processor_gets_bits_that_it_would_not_compute(op, calls, folder, worker, monkeypatch):
    ask(oracle_of(Memo(folder), worker), op=op)
    monkeypatch.setattr(memo_module, "processor", lambda: {"cpu_flags": ["avx512f"]})
    ask(oracle_of(Memo(folder), worker), op=op)
    assert worker.calls == calls


def test_an_op_that_the_pin_does_not_declare_is_remembered(folder, worker):
    for _ in range(2):
        ask(oracle_of(Memo(folder), worker), op="describe")
    assert (worker.calls, Memo(folder).usage().answers) == (2, 0)


def test_an_error_is_remembered(folder):
    broken = Slow(error=ProviderError("ERROR_RUN", "died"))
    with pytest.raises(ProviderError):
        ask(oracle_of(Memo(folder), broken))
    assert Memo(folder).usage().answers == 0


def test_an_answer_of_another_shape_than_expected_is_given(folder, worker):
    ask(oracle_of(Memo(folder), worker))
    ask(oracle_of(Memo(folder), worker), expect=SPECS | {"values": ("float32", (4, 2048))})
    assert worker.calls == 2
    ask(oracle_of(Memo(folder), worker), expect=SPECS)
    assert worker.calls == 2


def test_memory_of_the_caller_is_left_unfilled(folder, worker):
    ask(oracle_of(Memo(folder), worker))
    ask(oracle_of(Memo(folder), worker), into={"values": np.empty(8192, np.float32)})
    assert worker.calls == 2


def test_a_change_to_an_answer_changes_the_memo(folder, worker):
    ask(oracle_of(Memo(folder), worker))
    for array in ask(oracle_of(Memo(folder), worker)).arrays.values():
        array[:] = 7
    again = ask(oracle_of(Memo(folder), worker)).arrays
    assert worker.calls == 1
    assert [array.tobytes() for array in again.values()] == [array.tobytes() for array in VALUES.values()]


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    path.write_bytes(path.read_bytes()[:-2] + bytes([path.read_bytes()[-2] ^ 1]) + path.read_bytes()[-1:])


DAMAGES = {
    "truncated": truncate,
    "a bit": flip,
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
}


@pytest.mark.parametrize("what", ["entries", "blobs"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_an_answer(what, damage, folder, worker):
    ask(oracle_of(Memo(folder), worker))
    memo = Memo(folder)
    assert ask(oracle_of(memo, worker)).result == {"call": 1}
    memo.answered.clear()
    (path,) = (folder / what).iterdir()
    damage(path)
    assert ask(oracle_of(memo, worker)).result == {"call": 2}
    assert memo.answered == set()
    assert ask(oracle_of(Memo(folder), worker)).result == {"call": 2}, "the damage was not made good"


def test_a_damaged_file_stays(folder, worker):
    memo = Memo(folder)
    ask(oracle_of(memo, worker))
    (entry,) = (folder / "entries").iterdir()
    flip(entry)
    assert memo.get(entry.name, "engine") is None
    assert not entry.exists()


def test_swapped_entries_answer_for_each_other(folder):
    one, two = DATA, DATA + 1
    worker = Slow()
    for data in (one, two):
        ask(oracle_of(Memo(folder), worker), data=data)
    first, second = (folder / "entries").iterdir()
    first.rename(folder / "x")
    second.rename(first)
    (folder / "x").rename(second)
    for data in (one, two):
        ask(oracle_of(Memo(folder), worker), data=data)
    assert worker.calls == 4


def test_an_entry_that_names_a_path_removes_that_file(folder, worker, tmp_path):
    ask(oracle_of(Memo(folder), worker))
    (entry,) = (folder / "entries").iterdir()
    outside = tmp_path / "outside"
    outside.write_bytes(b"x" * 128)
    (blob,) = (folder / "blobs").iterdir()
    body = entry.read_bytes().partition(b"\n")[2].replace(blob.name.encode(), b"../../outside")
    entry.write_bytes(memo_module.hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert ask(oracle_of(Memo(folder), worker)).result == {"call": 2}
    assert outside.exists()


def test_refresh_reads_what_it_should_ask_for(folder, worker):
    ask(oracle_of(Memo(folder), worker))
    memo = Memo(folder, refresh=True)
    assert ask(oracle_of(memo, worker)).result == {"call": 2}
    assert memo.answered == set()
    assert ask(oracle_of(Memo(folder), worker)).result == {"call": 2}, "what was asked anew is not remembered"


@pytest.mark.parametrize(("count", "seconds", "kept"), [(4096, 0.0, 1), (4097, 0.0, 0), (4097, 0.001, 1)])
def test_answers_that_come_at_once_fill_the_disk(count, seconds, kept, folder):
    Memo(folder).put("a" * 64, Answer({}, {"values": np.zeros(count, np.float32)}, seconds))
    assert Memo(folder).usage().answers == kept


def test_the_memo_grows_without_end(folder):
    one = {}
    for number in range(64):
        memo = Memo(folder, limit=320_000)
        one["values"] = np.full(5000, number, np.float32)
        ask(oracle_of(memo, Slow(one)), data=DATA + number)
        memo.close()
    usage = Memo(folder).usage()
    assert 10 <= usage.answers <= 15
    assert usage.bytes <= 320_000
    last = Slow(one)
    ask(oracle_of(Memo(folder), last), data=DATA + 63)
    ask(oracle_of(Memo(folder), last), data=DATA)
    assert last.calls == 1, "the newest is kept and the oldest goes"


def test_one_answer_drives_out_all_others(folder):
    memo = Memo(folder, limit=8000)
    ask(oracle_of(memo, Slow({"values": np.zeros(1000, np.float32)})))
    assert memo.usage().answers == 0


def test_equal_arrays_are_kept_twice(folder, worker):
    ask(oracle_of(Memo(folder), worker))
    ask(oracle_of(Memo(folder), worker), data=DATA + 1)
    assert len(list((folder / "entries").iterdir())) == 2
    assert len(list((folder / "blobs").iterdir())) == 1


def test_a_cache_that_cannot_be_written_fails_the_case(folder, worker):
    folder.write_text("a file")
    for _ in range(2):
        ask(oracle_of(Memo(folder), worker))
    memo = Memo(folder)
    memo.close()
    assert (worker.calls, memo.trim(0).answers) == (2, 0)


WRITER = """
import sys
from pathlib import Path
import numpy as np
from oracles.memo import Memo
from oracles.pool import Answer

memo = Memo(Path(sys.argv[1]), limit=1 << 20)
for number in range(400):
    key = f"{number % 8:064x}"
    found = memo.get(key, "engine")
    if found is not None and not (found.arrays["values"] == number % 8).all():
        sys.exit("a wrong answer")
    memo.put(key, Answer({}, {"values": np.full(20_000, number % 8, np.float32)}, 1.0))
    if number % 50 == 49:
        memo.trim(200_000)
"""


def test_two_processes_that_write_at_once_leave_half_an_answer(folder):
    command = [sys.executable, "-c", WRITER, str(folder)]
    writers = [subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE) for _ in range(2)]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [(b"", 0)] * 2
    memo = Memo(folder)
    kept = [memo.get(f"{number:064x}", "engine") for number in range(8)]
    assert any(kept)
    assert not [path for path in folder.rglob(".*") if path.is_file() and path.name != ".trim.lock"]


def test_a_pool_asks_twice(this_interpreter, tmp_path, folder):
    pins = tmp_path / "pins" / "half_right"
    pins.mkdir(parents=True)
    for name in ("pin.yaml", "worker.py"):
        text = (PINS / "half_right" / name).read_text().replace("parents[3]", "parents[0]")
        (pins / name).write_text(text)
    for name in ("serve.py", "wire.py"):
        (pins / name).write_text((REPOSITORY / "oracles" / name).read_text())
    with (pins / "pin.yaml").open("a") as stream:
        stream.write("memo: {any_cpu: [dequantize]}\n")
    blocks = np.tile(np.frombuffer(bytes.fromhex("0038") + bytes(range(32)), np.uint8), 100)
    values = []
    for memo in (Memo(folder), Memo(folder), None):
        with Pool(folder=tmp_path / "pins", ensure=this_interpreter, memo=memo) as pool:
            oracle = pool.get("half_right")
            values.append(oracle.dequantize("ggml.q8_0", blocks, (100, 32)).arrays["values"].tobytes())
            assert (memo is None) or memo.answered == ({"half_right"} if len(values) == 2 else set())
    assert len(set(values)) == 1


@pytest.mark.parametrize(
    "memo",
    ["{any_cpu: [dequantise]}", "{any_cpu: [dequantize], same_cpu: [dequantize]}", "{all: [dequantize]}"],
)
def test_a_pin_declares_an_op_that_it_does_not_have(memo, tmp_path):
    (tmp_path / "one").mkdir()
    text = (PINS / "half_right" / "pin.yaml").read_text()
    (tmp_path / "one" / "pin.yaml").write_text(f"{text}memo: {memo}\n")
    assert yaml.safe_load((tmp_path / "one" / "pin.yaml").read_text())["memo"]
    with pytest.raises(BadInput, match="memo"):
        load_pins(tmp_path)


def test_an_op_that_reads_files_or_a_clock_is_remembered():
    impure = {
        *("describe", "gguf_open", "gguf_rewrite", "load", "quantize_model", "quantize_types", "time"),
    }
    for entry in load_pins().values():
        assert not impure & {*entry.memo.any_cpu, *entry.memo.same_cpu}, entry.name
