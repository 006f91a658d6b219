"""A worker whose ops each go wrong in their own way; `echo` and `pid` are the ones that work."""

import ctypes
import importlib.util
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

path = Path(__file__).resolve().parents[2] / "serve.py"
spec = importlib.util.spec_from_file_location("_harness_serve", path)
serve = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = serve
spec.loader.exec_module(serve)


def echo(params, arrays):
    return serve.Reply(arrays, 0.5, params)


def crash(_params, _arrays):
    print("the engine met a null pointer", file=sys.stderr, flush=True)
    ctypes.string_at(0)


def leave(params, _arrays):
    os._exit(params["status"])


def kill_itself(_params, _arrays):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(_params, _arrays):
    time.sleep(600)


def wrong_shape(_params, _arrays):
    return serve.Reply({"values": np.zeros((4, 4), np.float32)})


def wrong_dtype(_params, _arrays):
    return serve.Reply({"values": np.zeros((2, 8), np.float64)})


def missing_array(_params, _arrays):
    return serve.Reply({"valeus": np.zeros((2, 8), np.float32)})


def print_to_stdout(_params, _arrays):
    print("HQW1 a print of the engine in Python")
    sys.stdout.flush()
    os.write(1, b"HQW1\xff\xff\xff\xff a print of the engine in C\n")
    return serve.Reply({"values": np.ones((2, 8), np.float32)})


def read_stdin(_params, _arrays):
    return serve.Reply(result={"read": len(os.read(0, 100))})


def raise_error(_params, _arrays):
    raise ValueError("the engine's own words \x1b[31m")


def chatter(params, _arrays):
    for _ in range(params["lines"]):
        print("x" * 1000, file=sys.stderr)
    return serve.Reply()


def write_after_the_end(params, _arrays):
    out = serve.Guarded((4,), "float32")
    ctypes.memset(out.address + params["at"], params.get("value", 0), params["bytes"])
    return serve.Reply({"values": out.check()})


def fill(params, _arrays):
    out = serve.Guarded((4,), "float32")

    def run():
        for word in params["words"]:
            ctypes.memset(out.address + 4 * word, 255, 4)

    run()
    return serve.Reply({"values": out.check_filled(run)})


def limit_memory(_params, _arrays):
    serve.limit_memory()
    return serve.Reply()


def allocate(params, _arrays):
    return serve.Reply(result={"sum": int(np.zeros(params["bytes"], np.uint8)[:1].sum())})


def refuse(params, _arrays):
    raise getattr(serve, params.get("with", "BadRequest"))("no such block")


def nan_in_result(_params, _arrays):
    return serve.Reply(result={"x": float("nan")})


def start_a_child(_params, _arrays):
    child = os.fork()
    if child == 0:
        time.sleep(600)
    print(f"child {child}", file=sys.stderr, flush=True)
    time.sleep(600)


OPS = {
    f.__name__: f
    for f in (
        *(echo, crash, leave, kill_itself, hang, wrong_shape, wrong_dtype, missing_array, print_to_stdout),
        *(read_stdin, raise_error, chatter, write_after_the_end, refuse, nan_in_result, start_a_child),
        *(fill, limit_memory, allocate),
    )
}

if __name__ == "__main__":
    print("a print before the first frame", file=sys.stderr)
    serve.serve(serve.Provider("misbehave", "1", OPS, {"echo": ()}))
