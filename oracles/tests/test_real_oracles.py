"""The pinned engines themselves, installed into the user's cache on first use: these tests need a package registry once."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from harness.paths import REPOSITORY
from oracles.pins import load_pins
from oracles.pool import ProviderError, Unsupported, pins_for
from oracles.tests.faulty_decoders import SIZES

ROWS = 37
BLOCKS_A_ROW = 3


def random_bytes(encoding):
    """Bytes without structure, all NaN and infinity scales included, and the shape that they decode to."""
    elems, size = SIZES[encoding]
    rng = np.random.default_rng(zlib.crc32(encoding.encode()))
    return rng.integers(0, 256, ROWS * BLOCKS_A_ROW * size, dtype=np.uint8), (ROWS, BLOCKS_A_ROW * elems)


def same_bits(a, b):
    return bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_every_known_answer_holds(real_pool, name):
    oracle = real_pool.get(name)
    assert oracle.failures == {}
    assert all(oracle.has_known_answers("dequantize", encoding) for encoding in SIZES)


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_a_pin_promises_the_ops_and_dialects_that_its_worker_has(real_pool, name):
    oracle, entry = real_pool.get(name), load_pins()[name]
    assert sorted(oracle.ops) == sorted((*entry.ops, "time"))  # which every worker has: oracles/serve.py
    assert {e.split(".")[0] for encodings in oracle.ops.values() for e in encodings} == set(entry.dialects)
    assert oracle.version == entry.version


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_a_worker_cannot_import_the_repository(real_pool, name):
    paths = real_pool.get(name).worker.hello["sys_path"]
    assert paths
    for path in paths:
        assert path
        assert not REPOSITORY.is_relative_to(Path(path).resolve())
        assert not Path(path).resolve().is_relative_to(REPOSITORY)


@pytest.mark.parametrize("encoding", sorted(SIZES))
def test_judge_and_second_opinion_give_the_same_bits_on_random_bytes(real_pool, encoding):
    data, shape = random_bytes(encoding)
    values = [
        real_pool.get(name).dequantize(encoding, data, shape).arrays["values"]
        for name in pins_for("llama_cpp", "tensors")
    ]
    assert len(values) == 2
    assert same_bits(*values)


def test_every_encoding_that_both_decode_gets_the_same_bits(real_pool):
    judge, second = (real_pool.get(name) for name in pins_for("llama_cpp", "tensors"))
    both = [e for e in judge.ops["dequantize"] if second.supports("dequantize", e)]
    assert len(both) >= 26
    rng = np.random.default_rng(5)
    for encoding in both:
        elems, size = judge.details["blocks"][encoding]
        assert second.details["blocks"][encoding] == [elems, size]
        data = rng.integers(0, 256, 64 * size, dtype=np.uint8)
        a, b = (oracle.dequantize(encoding, data, (64, elems)).arrays["values"] for oracle in (judge, second))
        assert same_bits(a, b), encoding


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_a_wrong_number_of_bytes_is_refused_and_not_read_past(real_pool, name):
    oracle = real_pool.get(name)
    for size in (0, 17, 19, 36):
        with pytest.raises(ProviderError) as caught:
            oracle.dequantize("ggml.q4_0", np.zeros(size, np.uint8), (1, 32))
        assert caught.value.kind == "bad_request"
    with pytest.raises(ProviderError, match="32-blocks"):
        oracle.dequantize("ggml.q4_0", np.zeros(18, np.uint8), (2, 16))


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_a_tensor_without_elements_decodes_to_one(real_pool, name):
    answer = real_pool.get(name).dequantize("ggml.q4_0", np.zeros(0, np.uint8), (0, 32))
    assert answer.arrays["values"].shape == (0, 32)


def test_a_type_that_needs_an_importance_matrix_is_refused_and_does_not_abort(real_pool):
    oracle = real_pool.get("llama_cpp.ops")
    pid = oracle.worker.pid
    values = np.linspace(-1, 1, 512, dtype=np.float32).reshape(2, 256)
    for encoding in oracle.details["needs_imatrix"]:
        with pytest.raises(ProviderError, match="importance matrix") as caught:
            oracle.call("quantize", {"encoding": encoding}, {"values": values})
        assert caught.value.kind == "bad_request"
        with pytest.raises(ProviderError, match=r"imatrix must be \[256\]"):
            oracle.call("quantize", {"encoding": encoding}, {"values": values, "imatrix": values})
    arrays = {"values": values, "imatrix": np.ones(256, np.float32)}
    assert oracle.call("quantize", {"encoding": "ggml.iq2_xxs"}, arrays).arrays["data"].size == 2 * 66
    assert oracle.worker.pid == pid


@pytest.mark.parametrize(
    "encoding", ["ggml.q4_0", "ggml.q5_1", "ggml.q8_0", "ggml.mxfp4", "ggml.tq2_0", "ggml.bf16"]
)
def test_both_quantizers_give_the_same_bytes(real_pool, encoding):
    values = np.random.default_rng(3).standard_normal((8, 512), dtype=np.float32)
    first, second = (
        real_pool.get(name).call("quantize", {"encoding": encoding}, {"values": values}).arrays["data"]
        for name in pins_for("llama_cpp", "tensors")
    )
    assert first.tobytes() == second.tobytes()


def test_a_dot_product_is_that_of_its_decoded_operands(real_pool):
    oracle = real_pool.get("llama_cpp.ops")
    rng = np.random.default_rng(4)
    weights = rng.standard_normal((3, 512), dtype=np.float32)
    inputs = rng.standard_normal((5, 512), dtype=np.float32)
    for encoding in ("ggml.q4_0", "ggml.q8_0", "ggml.q4_k", "ggml.q6_k", "ggml.f16", "ggml.mxfp4"):
        x = oracle.call("quantize", {"encoding": encoding}, {"values": weights}).arrays["data"]
        fed = oracle.call("quantize_activation", {"encoding": encoding}, {"values": inputs})
        y, kind = fed.arrays["data"], fed.result["encoding"]
        got = oracle.call("vec_dot", {"encoding": encoding, "n": 512}, {"x": x.reshape(3, -1), "y": y})
        assert got.result["activations"] == kind
        a = oracle.dequantize(encoding, x, (3, 512)).arrays["values"].astype(np.float64)
        b = oracle.dequantize(kind, y.reshape(-1), (5, 512)).arrays["values"].astype(np.float64)
        # float32 accumulation of 512 products; the integer part of a quantized dot product is exact.
        bound = 512 * 2.0**-24 * (np.abs(a) @ np.abs(b).T)
        assert (np.abs(got.arrays["values"] - a @ b.T) <= bound).all(), encoding


def test_a_dot_product_with_rows_of_another_length_is_refused(real_pool):
    oracle = real_pool.get("llama_cpp.ops")
    arrays = {"x": np.zeros((2, 18), np.uint8), "y": np.zeros((2, 33), np.uint8)}
    with pytest.raises(ProviderError, match=r"y must be \[rows, 34\]"):
        oracle.call("vec_dot", {"encoding": "ggml.q4_0", "n": 32}, arrays)


def test_encodings_that_an_engine_cannot_decode_are_unsupported(real_pool):
    for name, encoding in (
        ("llama_cpp.ops", "ggml.q8_1"),
        ("formats", "ggml.q8_1"),
        ("formats", "ggml.q2_0"),
    ):
        with pytest.raises(Unsupported):
            real_pool.get(name).dequantize(encoding, np.zeros(36, np.uint8), (32,))


def gguf_file(path, *, truncate=0):
    """A GGUF file of two tensors and three keys, laid out by hand."""

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 2),
        text("tokens") + struct.pack("<IIQ", 9, 8, 3) + text("a") + text("b") + text("c"),
    ]
    tensors = [
        text("embedding") + struct.pack("<IQQIQ", 2, 64, 3, 2, 0),
        text("norm") + struct.pack("<IQIQ", 1, 5, 0, 128),
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys + tensors)
    head += b"\0" * (-len(head) % 32)
    raw = head + bytes(128) + bytes(20) + bytes(12)
    path.write_bytes(raw[: len(raw) - truncate])
    return len(head)


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_a_container_is_described_in_file_order_with_row_major_shapes(real_pool, name, tmp_path):
    start = gguf_file(tmp_path / "a.gguf")
    got = real_pool.get(name).describe(tmp_path / "a.gguf")
    assert (got["container"], got["version"], got["alignment"], got["data_offset"]) == ("gguf", 3, 32, start)
    assert got["keys"] == [
        {"key": "general.architecture", "type": "str"},
        {"key": "llama.block_count", "type": "u32"},
        {"key": "tokens", "type": "arr", "element": "str", "count": 3},
    ]
    assert [(t["name"], t["encoding"], t["type_id"]) for t in got["tensors"]] == [
        ("embedding", "ggml.q4_0", 2),
        ("norm", "ggml.f32", 0),
    ]
    assert [(t["offset"], t["nbytes"], t["shape"]) for t in got["tensors"]] == [
        (0, 108, [3, 64]),
        (128, 20, [5]),
    ]


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_a_file_that_the_engine_refuses_costs_one_case_and_keeps_its_words(real_pool, name, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ProviderError) as caught:
        real_pool.get(name).describe(tmp_path / "bad.gguf")
    assert caught.value.kind == "bad_request"
    assert "refuses the file" in caught.value.message
    with pytest.raises(ProviderError, match="path is no file"):
        real_pool.get(name).describe(tmp_path)
