"""Those that are timed: our kernels in this process, and workers in theirs. Each measures the op alone, where it runs."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.bench.inputs import Inputs
from harness.bench.recipe import Arm, Work
from harness.evidence.record import Judge
from harness.guard import GuardedBuffer
from harness.plugin.opinions import judge_of
from kernels import cpu_matmul, cpu_ops, provider, quantizer
from kernels.units import unit
from oracles.pool import Oracle, Pool

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Timed:
    """Seconds of each measured run, and the sha256 of the arrays that the last run gave."""

    seconds: tuple[float, ...]
    sha256: Mapping[str, str]


class Player(Protocol):
    """Who plays an arm. `judge` is the pin behind it, None for our own kernels."""

    @property
    def kernel(self) -> str: ...

    @property
    def judge(self) -> Judge | None: ...

    def produce(self) -> Arrays:
        """The result, to be verified. Raises ProviderError or UsageProblem."""

    def time(self, warmup: int, repeat: int) -> Timed:
        """Run `warmup` times, discarded, and `repeat` times measured."""


def digests(arrays: Arrays) -> dict[str, str]:
    """sha256 of the bytes of each array."""
    return {
        name: hashlib.sha256(np.ascontiguousarray(array).data).hexdigest() for name, array in arrays.items()
    }


class Own:
    """Our numpy kernels, in this process. A decode writes into memory that is given, poisoned before each run, or new."""

    judge = None

    def __init__(self, arm: Arm, work: Work, inputs: Inputs) -> None:
        self._work, self._inputs = work, inputs
        self._given = arm.memory == "given"
        found = unit(work.encoding)
        self.kernel = {
            "dequantize": f"kernels/{found.dialect}/{found.name}/reference.py:decode",
            "vec_dot": "kernels/cpu_matmul.py:multiply_quantized",
            "quantize_row": "kernels/cpu_ops.py:encode",
        }.get(work.op, f"kernels/{found.dialect}/{found.name}/quantize.py")

    def produce(self) -> Arrays:
        return self._run()[0]

    def time(self, warmup: int, repeat: int) -> Timed:
        seconds = []
        collecting = gc.isenabled()
        gc.disable()
        try:
            for _ in range(warmup + repeat):
                arrays, took = self._run()
                seconds.append(took)
        finally:
            if collecting:
                gc.enable()
        return Timed(tuple(seconds[warmup:]), digests(arrays))

    def _run(self) -> tuple[Arrays, float]:
        (name, (dtype, shape)) = next(iter(self._inputs.gives.items()))
        out = None
        if self._given and self._work.op == "dequantize":
            out = GuardedBuffer(int(np.prod(shape)) * np.dtype(dtype).itemsize).array(dtype, shape)
        run = _own_op(self._work, self._inputs, out)
        start = time.perf_counter()
        result = run()
        took = time.perf_counter() - start
        return {name: result.reshape(shape)}, took


def _own_op(work: Work, inputs: Inputs, out: Array | None) -> Callable[[], Array]:
    arrays = inputs.arrays
    if work.op == "dequantize":
        return lambda: provider.dequantize(work.encoding, arrays["data"], work.shape, out=out)
    if work.op == "vec_dot":
        x = arrays["x"].reshape(-1)
        return lambda: cpu_matmul.multiply_quantized(work.encoding, arrays["y"], x, work.shape)
    values = arrays["values"]
    if work.op == "quantize_activation":
        return lambda: cpu_matmul.encode_activations(work.encoding, values)
    if work.op == "quantize_row":
        return lambda: cpu_ops.encode(work.encoding, values)
    return lambda: quantizer.quantize(work.encoding, values, arrays.get("imatrix"))


class Remote:
    """A pinned oracle in its worker, which times itself (`time`, docs/protocol.md)."""

    def __init__(self, arm: Arm, oracle: Oracle, work: Work, inputs: Inputs) -> None:
        self._oracle, self._op, self._inputs = oracle, work.op, inputs
        self._params = dict(inputs.params)
        if oracle.name == "formats" and work.op == "dequantize":
            self._params["by"] = "gguf"
        self.judge = judge_of(oracle)
        self.kernel = f"{self.judge.package} {self.judge.version}: {work.op} {work.encoding}"

    def produce(self) -> Arrays:
        answer = self._oracle.call(self._op, self._params, self._inputs.arrays, expect=self._inputs.gives)
        return answer.arrays

    def time(self, warmup: int, repeat: int) -> Timed:
        params = {"op": self._op, "params": self._params, "warmup": warmup, "repeat": repeat}
        found = self._oracle.call("time", params, self._inputs.arrays, expect={}).result
        return Timed(tuple(map(float, found["seconds"])), found["sha256"])


def player_of(arm: Arm, work: Work, inputs: Inputs, pool: Pool) -> Player | str:
    """Who plays the arm in this work, or why nobody does."""
    if arm.ops and work.op not in arm.ops:
        return f"{arm.name} takes no part in {work.op}"
    if arm.largest_elements is not None and work.elements > arm.largest_elements:
        return f"{arm.name} is timed up to {arm.largest_elements} elements"
    if arm.provider == "reference":
        return Own(arm, work, inputs)
    oracle = pool.get(arm.provider)
    if not oracle.supports(work.op, work.encoding):
        return oracle.why_not(work.op, work.encoding) or f"{arm.provider} has no {work.op}"
    return Remote(arm, oracle, work, inputs)
