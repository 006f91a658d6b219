"""A subject in a process of its own: somebody's Python behind the host, or a provider that plays the subject."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageProblem
from harness.ladder.judge import Judge
from harness.subjects.base import Kernel, Origin, Produced
from harness.subjects.target import Target
from kernels.units import Unit
from oracles.worker_process import Answer, ProviderError, Unsupported, Worker

START_SECONDS = 120.0
"""Importing a large framework on a cold disk takes this long at worst."""


class PythonSubject:
    """`--subject module:function | FILE.py:function`, run by `harness.subjects.host`."""

    def __init__(self, target: Target) -> None:
        """Start the host. Raises UsageProblem with the last line of its traceback when the code cannot be imported."""
        self._target = target
        command = [sys.executable, "-u", "-m", "harness.subjects.host", target.text]
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


def _produced(answer: Answer, kernel: Kernel) -> Produced:
    unstable = answer.result.get("unstable")
    return Produced(
        answer.arrays["values"], answer.seconds, kernel, None if unstable is None else str(unstable)
    )
