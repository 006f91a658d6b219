"""Frames: what goes in comes out, and nothing is allocated for a frame that lies."""

import json
import os
import struct
import threading

import numpy as np
import pytest

from oracles import wire


def through_a_pipe(header, arrays, **options):
    reader, writer = os.pipe()

    def send():
        wire.write_pieces(writer, wire.encode(header, arrays))
        os.close(writer)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        return wire.read_frame(reader, **options)
    finally:
        thread.join()
        os.close(reader)


@pytest.mark.parametrize("dtype", wire.DTYPES)
def test_every_dtype_keeps_its_bits(dtype):
    sent = np.arange(1, 241, dtype=np.uint8).view(dtype)
    header, got = through_a_pipe({"id": 7, "op": "x"}, {"a": sent})
    assert header["id"] == 7
    assert got["a"].dtype == sent.dtype
    assert got["a"].tobytes() == sent.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (3, 0, 2), (1, 1), (2, 3, 4)])
def test_shapes_without_elements_and_without_dimensions_survive(shape):
    sent = np.full(shape, 2.5, np.float32)
    _, got = through_a_pipe({}, {"first": sent, "second": np.int64(9).reshape(())})
    assert got["first"].shape == shape
    assert np.array_equal(got["first"], sent)
    assert got["second"].item() == 9


def test_nan_payloads_and_negative_zero_survive():
    bits = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800001], np.uint32)
    _, got = through_a_pipe({}, {"values": bits.view(np.float32)})
    assert got["values"].view(np.uint32).tolist() == bits.tolist()


def test_strided_and_big_endian_arrays_arrive_in_order():
    sent = np.arange(24, dtype=">i4").reshape(4, 6)[::2, ::-1]
    _, got = through_a_pipe({}, {"a": sent})
    assert got["a"].tolist() == sent.tolist()


def test_contiguous_arrays_are_sent_without_a_copy():
    sent = np.zeros(1000, np.float32)
    view = wire.encode({}, {"a": sent})[1]
    sent[0] = 1
    assert view[:4] == np.float32(1).tobytes()


def test_a_clean_end_is_no_frame_and_a_torn_one_is_an_error():
    reader, writer = os.pipe()
    os.close(writer)
    assert wire.read_frame(reader) is None
    os.close(reader)
    reader, writer = os.pipe()
    os.write(writer, b"HQW")
    os.close(writer)
    with pytest.raises(wire.WireError, match="ended after 3 of 8"):
        wire.read_frame(reader)
    os.close(reader)


def test_objects_are_refused_by_the_sender():
    with pytest.raises(wire.WireError, match="dtype object"):
        wire.encode({}, {"a": np.array([object()])})
    with pytest.raises(wire.WireError, match="dtype complex"):
        wire.encode({}, {"a": np.zeros(2, np.complex64)})


def test_nan_in_a_header_is_refused_by_the_sender():
    with pytest.raises(ValueError, match="not JSON compliant"):
        wire.encode({"x": float("nan")}, {})


def test_a_header_over_the_limit_is_refused_before_it_is_read():
    with pytest.raises(wire.WireError, match="over the limit"):
        wire.header_length(struct.pack("<4sI", wire.MAGIC, wire.MAX_HEADER_BYTES + 1))


def test_a_request_over_the_limit_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(wire.ArraySpec, "allocate", lambda self: pytest.fail("allocated"))
    with pytest.raises(wire.WireError, match="over the limit of 1000"):
        through_a_pipe({}, {"a": np.zeros(1001, np.uint8)}, limit=1000)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "must be a list"),
        ([1], "not an object"),
        ([{"dtype": "uint8", "shape": [1]}], "no name"),
        ([{"name": "", "dtype": "uint8", "shape": [1]}], "no name"),
        ([{"name": "a", "dtype": "O", "shape": [1]}], "dtype 'O'"),
        ([{"name": "a", "dtype": ["uint8"], "shape": [1]}], "dtype"),
        ([{"name": "a", "dtype": "uint8"}], "shape must be"),
        ([{"name": "a", "dtype": "uint8", "shape": [1] * 9}], "shape must be"),
        ([{"name": "a", "dtype": "uint8", "shape": [1.0]}], "count of elements"),
        ([{"name": "a", "dtype": "uint8", "shape": [-1]}], "count of elements"),
        ([{"name": "a", "dtype": "uint8", "shape": [True]}], "count of elements"),
        ([{"name": "a", "dtype": "uint8", "shape": [1 << 62]}], "count of elements"),
        ([{"name": "a", "dtype": "float64", "shape": [1 << 20, 1 << 20]}], "over the limit"),
        ([{"name": "a", "dtype": "uint8", "shape": [1]}] * 2, "same name"),
        ([{"name": str(i), "dtype": "uint8", "shape": [0]} for i in range(65)], "at most 64"),
    ],
)
def test_headers_that_lie_about_arrays_are_refused(arrays, message):
    with pytest.raises(wire.WireError, match=message):
        wire.parse_specs({"arrays": arrays})


@pytest.mark.parametrize("raw", [b"", b"\xff", b"[]", b'"x"', b"{", b"[" * 100_000, b'{"a": Infinity}'])
def test_headers_that_are_no_strict_json_object_are_refused(raw):
    with pytest.raises(wire.WireError):
        wire.parse_header(raw)


def test_the_frame_on_the_wire_is_the_documented_one():
    pieces = wire.encode({"id": 1, "op": "dequantize"}, {"data": np.array([1, 2], np.uint16)})
    raw = b"".join(pieces)
    assert raw[:4] == b"HQW1"
    length = int.from_bytes(raw[4:8], "little")
    assert json.loads(raw[8 : 8 + length])["arrays"] == [{"name": "data", "dtype": "uint16", "shape": [2]}]
    assert raw[8 + length :] == b"\x01\x00\x02\x00"
