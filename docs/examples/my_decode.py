import numpy as np


def dequantize(encoding, data, shape):
    assert encoding == "ggml.q4_1"  # blocks of 20 bytes: scale, minimum, 16 bytes of nibbles
    blocks = data.reshape(-1, 20)
    scale = blocks[:, 0:2].view(np.float16).astype(np.float32)
    minimum = blocks[:, 2:4].view(np.float16).astype(np.float32)
    codes = np.hstack([blocks[:, 4:] & 15, blocks[:, 4:] >> 4])
    return (scale * codes + minimum).reshape(shape)
