"""An engine whose build is wrong for one encoding: it swaps the nibble halves of Q4_0 and is right about Q8_0 and F32."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np

path = Path(__file__).resolve().parents[3] / "serve.py"
spec = importlib.util.spec_from_file_location("_harness_serve", path)
serve = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = serve
spec.loader.exec_module(serve)


def scale(blocks):
    return np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)


def q4_0(data):
    blocks = data.reshape(-1, 18)
    codes = np.concatenate([blocks[:, 2:] >> 4, blocks[:, 2:] & 15], axis=1)
    return scale(blocks) * (codes.astype(np.float32) - 8)


def q8_0(data):
    blocks = data.reshape(-1, 34)
    return scale(blocks) * blocks[:, 2:].view(np.int8).astype(np.float32)


DECODERS = {"ggml.q4_0": q4_0, "ggml.q8_0": q8_0, "ggml.f32": lambda data: data.view(np.float32)}


def dequantize(params, arrays):
    with np.errstate(all="ignore"):
        values = DECODERS[params["encoding"]](arrays["data"])
    return serve.Reply({"values": values.reshape(params["shape"])})


def environ(_params, _arrays):
    return serve.Reply(result=dict(os.environ))


if __name__ == "__main__":
    ops = {"dequantize": dequantize, "environ": environ}
    serve.serve(serve.Provider("half_right", "1.0.0", ops, {"dequantize": tuple(DECODERS)}))
