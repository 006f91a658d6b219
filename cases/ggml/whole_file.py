"""Every tensor of a checkpoint decoded by us and by the oracles, a piece at a time, and what becomes of the whole."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cases.ggml.judges import kernel_of
from harness.comparison.bounds import BIT_EXACT
from harness.containers.checkpoint import Checkpoint, TensorInfo
from harness.guard import GuardedBuffer
from harness.plugin.judging import Judged, judge
from harness.plugin.opinions import decoded_by
from harness.verdicts import Side, Verdict
from kernels.provider import dequantize
from kernels.units import Unit, encoded_bytes, unit
from oracles.pool import Oracle

PIECE_ELEMENTS = 1 << 22
"""Weights that are decoded at a time: the largest tensor need not fit in memory several times over."""


@dataclasses.dataclass(frozen=True)
class WholeFile:
    """The first tensor that did not pass decides, otherwise all passed. `digest` is that of our values, in file order."""

    judged: Judged
    kernel: str
    digest: bytes


def judge_file(checkpoint: Checkpoint, oracles: Sequence[Oracle]) -> WholeFile:
    """Hold our decode of every tensor against each oracle that decodes its encoding. Raises ProviderError."""
    digest, checked = hashlib.sha256(), 0
    units: dict[str, Unit] = {}
    passed: dict[str, Judged] = {}
    for tensor in checkpoint.tensors:
        found = unit(tensor.encoding or "")
        units[found.encoding] = found
        able = [oracle for oracle in oracles if oracle.supports("dequantize", found.encoding)]
        for judged in _pieces(checkpoint, tensor, found, able, digest):
            checked += judged.comparison.checked
            if judged.verdict is not Verdict.PASS:
                judged = dataclasses.replace(judged, message=f"{tensor.name}: {judged.message}")
                return WholeFile(judged, kernel_of(found, "decode"), digest.digest())
            passed[found.encoding] = judged
        checkpoint.release(tensor.name)
    judges = {one.pin: one for judged in passed.values() for one in judged.judges}
    last = list(passed.values())[-1]
    whole = dataclasses.replace(
        last, judges=tuple(judges.values()), comparison=dataclasses.replace(last.comparison, checked=checked)
    )
    kernels = " and ".join(kernel_of(found, "decode") for found in units.values())
    return WholeFile(whole, kernels, digest.digest())


def _pieces(
    checkpoint: Checkpoint, tensor: TensorInfo, found: Unit, able: Sequence[Oracle], digest: Any
) -> Iterator[Judged]:
    """The judgements about one tensor, whose decoded values go into `digest`."""
    data = checkpoint.little_endian_bytes(tensor.name)
    columns = tensor.shape[-1]
    rows = int(np.prod(tensor.shape[:-1], dtype=np.int64))
    step = max(1, PIECE_ELEMENTS // columns)
    row_bytes = encoded_bytes(found, (1, columns))
    for first in range(0, rows, step):
        shape = (min(step, rows - first), columns)
        piece = data[first * row_bytes : (first + shape[0]) * row_bytes]
        buffer = GuardedBuffer(4 * shape[0] * shape[1])
        values = dequantize(found.encoding, piece, shape, out=buffer.array(np.float32, shape))
        digest.update(values)
        judged = judge(values, decoded_by(able, found.encoding, piece, shape), BIT_EXACT, found.block_elems)
        overrun = buffer.overrun()
        if overrun:
            words = f"the kernel {overrun} of the memory that it was given"
            judged = dataclasses.replace(judged, verdict=Verdict.FAIL_OOB, side=Side.SUBJECT, message=words)
        yield judged
