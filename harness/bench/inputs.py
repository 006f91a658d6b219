"""What a work is done on: encoded weights with ordinary scales, or the values to encode, drawn from the recipe's seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cases.generators import ordinary_blocks, value_fields
from harness.bench.recipe import Work
from kernels.cpu_matmul import encode_activations, partner_of
from kernels.quantizer import NEEDS_IMPORTANCE, quantize
from kernels.units import Unit, encoded_bytes, unit

Array = npt.NDArray[Any]
STANDARD_DEVIATION = 0.02
"""Of the values to encode: about that of a trained model's weights."""


@dataclass(frozen=True)
class Inputs:
    """The arrays of a work as a worker gets them, its params, the arrays that come out, and the floating-point operations."""

    arrays: Mapping[str, Array]
    params: Mapping[str, Any]
    gives: Mapping[str, tuple[str, tuple[int, ...]]]
    flops: int | None

    @property
    def moved(self) -> int:
        """Bytes that any implementation has to read and write."""
        read = sum(array.nbytes for array in self.arrays.values())
        return read + sum(
            int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in self.gives.values()
        )


def inputs_of(work: Work, seed: int) -> Inputs:
    """The same numbers for every arm and every time."""
    words = f"{seed}/{work.op}/{work.encoding}/{work.size}"
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "little"))
    found = unit(work.encoding)
    rows, columns = work.shape
    if work.op == "dequantize":
        data = _weights(found, work.shape, rng).reshape(-1)
        params: dict[str, Any] = {"encoding": work.encoding, "shape": [rows, columns]}
        return Inputs({"data": data}, params, {"values": ("float32", work.shape)}, None)
    if work.op == "vec_dot":
        x = _weights(found, work.shape, rng)
        y = encode_activations(work.encoding, _values((1, columns), rng))
        arrays, params = {"x": x, "y": y}, {"encoding": work.encoding, "n": columns}
        return Inputs(arrays, params, {"values": ("float32", (rows, 1))}, 2 * work.elements)
    out = partner_of(work.encoding) if work.op == "quantize_activation" else found
    row_bytes = encoded_bytes(out, (columns,))
    shape: tuple[int, ...] = (rows * row_bytes,) if work.op == "quantize" else (rows, row_bytes)
    values: dict[str, Array] = {"values": _values(work.shape, rng)}
    if work.op == "quantize" and work.encoding in NEEDS_IMPORTANCE:
        values["imatrix"] = np.ones(columns, np.float32)
    return Inputs(values, {"encoding": work.encoding}, {"data": ("uint8", shape)}, None)


def _values(shape: tuple[int, int], rng: np.random.Generator) -> npt.NDArray[np.float32]:
    return rng.standard_normal(shape, np.float32) * np.float32(STANDARD_DEVIATION)


def _weights(found: Unit, shape: tuple[int, int], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Encoded weights uint8 [rows, row_bytes]."""
    if value_fields(found):
        return quantize(found.encoding, _values(shape, rng)).reshape(shape[0], -1)
    blocks = ordinary_blocks(found, shape[0] * shape[1] // found.block_elems, rng)
    return blocks.reshape(shape[0], -1)
