"""Q4_1 with the halves of each block exchanged: low nibbles decoded as the second sixteen."""

import numpy as np


def dequantize(encoding, data, shape):
    assert encoding == "ggml.q4_1"
    blocks = data.reshape(-1, 20)
    scale, minimum = blocks[:, 0:4].view("<f2").astype(np.float32).T
    codes = np.concatenate([blocks[:, 4:] >> 4, blocks[:, 4:] & 15], axis=1)
    return (scale[:, None] * codes + minimum[:, None]).astype(np.float32).reshape(shape)
