"""Tensors of the `cpu` backend that lie in memory at strides: permuted, transposed, narrowed, as engines pass them.

A `View` names bytes and never owns them. What is read through one is read where it lies; nothing is copied first to make
it contiguous. Blocks run along the last dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageProblem
from kernels.provider import dequantize
from kernels.units import unit

INTEGERS = {"ggml.i32": np.dtype("<i4")}
"""Types of ggml that are no encodings of weights and that its ops move about all the same."""


def block_of(encoding: str) -> tuple[int, int]:
    """Elements and bytes of a block. Raises UsageProblem for an unknown encoding."""
    if encoding in INTEGERS:
        return 1, INTEGERS[encoding].itemsize
    found = unit(encoding)
    return found.block_elems, found.block_bytes


@dataclass(frozen=True)
class View:
    """A tensor of `shape` (the last dimension in elements) in `data` uint8 [n_bytes], from byte `offset` on.

    `strides` (bytes) go with `shape`; the last one leads from block to block. Raises UsageProblem for blocks that do not
    fit the last dimension, or memory that the view would leave.
    """

    encoding: str
    data: NDArray[np.uint8]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.data, np.ndarray) or self.data.dtype != np.uint8 or self.data.ndim != 1:
            raise self.refused("data", "something else", "a numpy array of uint8 with one dimension")
        if not self.data.flags.c_contiguous:
            raise self.refused("data", f"stride {self.data.strides[0]}", "contiguous bytes")
        if not self.shape or len(self.shape) != len(self.strides) or min(self.shape) < 0:
            raise self.refused(
                "shape", f"{self.shape} at strides {self.strides}", "a stride for each of its sizes"
            )
        elems, size = block_of(self.encoding)
        if self.shape[-1] % elems:
            raise self.refused("shape", self.shape, f"a last size that is a multiple of the block of {elems}")
        counts = (*self.shape[:-1], self.shape[-1] // elems)
        reach = sum((count - 1) * stride for count, stride in zip(counts, self.strides, strict=True)) + size
        if min((self.offset, *self.strides)) < 0:
            raise self.refused("strides", f"{self.strides} from {self.offset}", "none below 0")
        if math.prod(counts) and self.offset + reach > self.data.size:
            raise self.refused(
                "data", f"{self.data.size} bytes", f"{self.offset + reach}, which the view reaches"
            )

    @property
    def block(self) -> tuple[int, int]:
        return block_of(self.encoding)

    def blocks(self) -> NDArray[np.uint8]:
        """uint8 [*shape[:-1], blocks of a row, block_bytes], in the memory of the view; to write to, where that allows it."""
        elems, size = self.block
        counts = (*self.shape[:-1], self.shape[-1] // elems, size)
        if not math.prod(counts):
            return np.empty(counts, np.uint8)
        return np.ndarray(counts, np.uint8, self.data.data, self.offset, (*self.strides, 1))

    def rows(self) -> NDArray[np.uint8]:
        """uint8 [*shape[:-1], row_bytes], in the memory of the view. Raises UsageProblem where a row is not in one piece."""
        blocks = self.blocks()
        if self.strides[-1] != self.block[1] and blocks.shape[-2] > 1:
            raise self.refused("strides", self.strides, f"rows whose blocks lie {self.block[1]} bytes apart")
        wanted = (*blocks.shape[:-2], blocks.shape[-2] * blocks.shape[-1])
        if not math.prod(wanted):
            return np.empty(wanted, np.uint8)
        return np.ndarray(wanted, np.uint8, self.data.data, self.offset, (*self.strides[:-1], 1))

    def values(self) -> NDArray[np.float32]:
        """float32 [shape], decoded; of float32 itself the memory of the view, of integers their nearest floats."""
        blocks = self.blocks()
        if self.encoding == "ggml.f32" or self.encoding in INTEGERS:
            dtype = INTEGERS.get(self.encoding, np.dtype("<f4"))
            if not math.prod(self.shape):
                return np.empty(self.shape, np.float32)
            plain = np.ndarray(self.shape, dtype, self.data.data, self.offset, self.strides)
            return plain if dtype == np.float32 else plain.astype(np.float32)
        return dequantize(self.encoding, blocks.reshape(-1), self.shape)

    def refused(self, argument: str, got: Any, wanted: str) -> UsageProblem:
        return UsageProblem(f"view of {self.encoding}: {argument}: got {got}, wanted {wanted}")


def contiguous(encoding: str, data: NDArray[np.uint8], shape: Sequence[int]) -> View:
    """The view of a whole tensor that lies row after row. Raises UsageProblem."""
    elems, size = block_of(encoding)
    counts = [*shape[:-1], shape[-1] // elems]
    strides = [size * math.prod(counts[at + 1 :]) for at in range(len(counts))]
    return View(encoding, data, tuple(shape), tuple(strides))
