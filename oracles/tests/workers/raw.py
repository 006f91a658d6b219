"""A worker that greets properly, then answers the next request with the bytes that its argument names."""

import json
import os
import struct
import sys
import time


def frame(header, tail=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"HQW1" + struct.pack("<I", len(raw)) + raw + tail


def read_exactly(count):
    data = b""
    while len(data) < count:
        piece = os.read(0, min(1 << 20, count - len(data)))
        if not piece:
            sys.exit()
        data += piece
    return data


def read_header():
    _, length = struct.unpack("<4sI", read_exactly(8))
    return json.loads(read_exactly(length))


def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def ok(number, arrays=(), **more):
    return {"id": number, "ok": True, "seconds": 0.0, "result": {}, "arrays": list(arrays), **more}


def array(name="values", dtype="float32", shape=(2, 8)):
    return {"name": name, "dtype": dtype, "shape": list(shape)}


BYTES = {
    "other_magic": lambda n: b"GGUF" + b"\0" * 60,
    "header_of_4_gib": lambda n: b"HQW1\xff\xff\xff\xff" + b"{" * 100,
    "not_json": lambda n: frame(b"\xff\xfe{{{"),
    "json_list": lambda n: frame(b"[1, 2]"),
    "json_nan": lambda n: frame(b'{"id": %d, "ok": true, "seconds": NaN}' % n),
    "json_deep": lambda n: frame(b"[" * 200_000),
    "array_of_a_terabyte": lambda n: frame(ok(n, [array(shape=(1 << 38,))])),
    "array_of_unasked_shape": lambda n: frame(ok(n, [array(shape=(1 << 30,))])),
    "array_of_objects": lambda n: frame(ok(n, [array(dtype="object")])),
    "negative_size": lambda n: frame(ok(n, [array(shape=(-1, 8))])),
    "size_that_is_true": lambda n: frame(ok(n, [array(shape=(True, 8))])),
    "sizes_that_overflow": lambda n: frame(ok(n, [array(shape=(1 << 35,) * 8)])),
    "hundred_arrays": lambda n: frame(ok(n, [array(name=str(i), shape=(0,)) for i in range(100)])),
    "same_name_twice": lambda n: frame(ok(n, [array(), array()])),
    "other_id": lambda n: frame(ok(n + 1)),
    "neither_ok_nor_error": lambda n: frame({"id": n}),
    "result_is_a_list": lambda n: frame(ok(n, result=[])),
    "error_with_arrays": lambda n: frame({"id": n, "ok": False, "error": {}, "arrays": [array()]}),
    "half_an_array": lambda n: frame(ok(n, [array()]), b"\0" * 30),
    "old_protocol": lambda n: frame(ok(n, result={"protocol": 0})),
}

if __name__ == "__main__":
    mode = sys.argv[1]
    hello = read_header()
    if mode == "old_protocol":
        write(BYTES[mode](hello["id"]))
        time.sleep(600)
    write(frame(ok(hello["id"], result={"protocol": 1, "provider": "raw", "version": "1", "ops": {}})))
    if mode == "never_reads":
        time.sleep(600)
    request = read_header()
    number = request["id"]
    if mode == "answers_before_reading":
        write(
            frame(
                {"id": number, "ok": False, "error": {"kind": "bad_request", "message": "too large for me"}}
            )
        )
        time.sleep(600)
    if mode == "drip":
        for byte in frame(ok(number, [array()]), b"\0" * 64):
            write(bytes([byte]))
            time.sleep(0.001)
        time.sleep(600)
    if mode == "stall":
        write(frame(ok(number, [array()]), b"\0" * 30))
        time.sleep(600)
    write(BYTES[mode](number))
    if mode != "half_an_array":
        time.sleep(600)
