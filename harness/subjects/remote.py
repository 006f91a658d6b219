"""A subject in a process of its own: somebody's Python behind the host, or a provider that plays the subject."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageProblem
from harness.guard import POISON
from harness.ladder.judge import Judge
from harness.subjects.base import Kernel, Origin, Produced
from harness.subjects.target import Target
from harness.verdicts import Verdict
from kernels import provider
from kernels.units import Unit
from oracles.worker_process import Answer, ProviderError, Unsupported, Worker

START_SECONDS = 120.0
"""Importing a large framework on a cold disk takes this long at worst."""

HOST = Path(__file__).with_name("host.py")


class PythonSubject:
    """`--subject module:function | FILE.py:function`, run by `harness.subjects.host`."""

    def __init__(self, target: Target) -> None:
        """Start the host. Raises UsageProblem with the last line of its traceback when the code cannot be imported."""
        self._target = target
        # By path and with -P, so that nothing in the current folder can stand in for a module of ours.
        command = [sys.executable, "-P", "-u", str(HOST), target.text]
        try:
            self._worker = Worker.start(
                command, name=f"subject {target.text}", timeout=START_SECONDS, cwd=Path.cwd()
            )
        except ProviderError as error:
            lines = error.stderr.strip().splitlines() or [error.message]
            raise UsageProblem(f"--subject {target.text} cannot be used: {lines[-1]}") from None
        self.name = target.text
        self.version = str(self._worker.hello.get("version", ""))

    def dequantize(
        self, unit: Unit, data: npt.NDArray[np.uint8], shape: tuple[int, ...], *, repeat: int, timeout: float
    ) -> Produced:
        if "dequantize" not in self._worker.hello.get("ops", {}):
            raise Unsupported(f"{self.name} has no dequantize")
        answer = self._worker.call(
            "dequantize",
            {"encoding": unit.encoding, "shape": list(shape), "repeat": repeat},
            {"data": data},
            timeout=timeout,
            expect={"values": ("float32", shape)},
        )
        unwritten = answer.result.get("unwritten")
        if unwritten and _hidden(unit, data, shape, answer.arrays["values"]):
            first = answer.result.get("first")
            raise ProviderError(
                Verdict.FAIL_NONFINITE, f"{unwritten} elements were never written, the first at {first}"
            )
        return _produced(answer, Kernel("python", self.name))

    def origin(self, unit: Unit) -> Origin:
        file = str(self._target.file) if self._target.file else None
        return Origin(file, self._target.module, self._target.function or "dequantize")

    def close(self) -> None:
        self._worker.close()

    def describe(self) -> dict[str, Any]:
        return {"kind": "python", "target": self._target.text}


class ProviderSubject:
    """`--subject llama_cpp | formats | <pin>`: an oracle in the subject's role."""

    def __init__(self, oracle: Judge) -> None:
        self._oracle = oracle
        self.name = oracle.name
        self.version = oracle.version

    def dequantize(
        self, unit: Unit, data: npt.NDArray[np.uint8], shape: tuple[int, ...], *, repeat: int, timeout: float
    ) -> Produced:
        def run() -> Answer:
            return self._oracle.call(
                "dequantize",
                {"encoding": unit.encoding, "shape": list(shape)},
                {"data": data},
                timeout=timeout,
                expect={"values": ("float32", shape)},
            )

        produced = _produced(run(), Kernel(self.name, f"{self.name}:dequantize"))
        for _ in range(repeat - 1):
            again = run().arrays["values"]
            if not np.array_equal(again.view(np.uint32), produced.values.view(np.uint32)):
                return Produced(
                    produced.values,
                    produced.seconds,
                    produced.kernel,
                    "the bits changed from one run to the next",
                )
        return produced

    def origin(self, unit: Unit) -> Origin:
        return Origin()

    def close(self) -> None:
        """The pool that it came from closes it."""

    def describe(self) -> dict[str, Any]:
        return {"kind": "provider", "pin": self.name}


def _hidden(
    unit: Unit, data: npt.NDArray[np.uint8], shape: tuple[int, ...], values: npt.NDArray[np.float32]
) -> bool:
    """Whether a comparison would pass the elements that were never written: NaN is right wherever the poison stands.

    Where it is not, the comparison shows the place, and that says more. Our own decoder tells.
    """
    poisoned = values.reshape(-1).view(np.uint32) == 0x01010101 * POISON
    try:
        right = provider.dequantize(unit.encoding, data, shape)
    except UsageProblem:
        return True
    return bool(np.isnan(right.reshape(-1)[poisoned]).all())


def _produced(answer: Answer, kernel: Kernel) -> Produced:
    unstable = answer.result.get("unstable")
    return Produced(
        answer.arrays["values"], answer.seconds, kernel, None if unstable is None else str(unstable)
    )
