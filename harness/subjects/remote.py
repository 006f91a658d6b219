"""A subject in a process of its own: somebody's Python behind the host, or a provider that plays the subject."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.errors import UsageProblem
from harness.subjects.base import Kernel, Origin, Produced, unwritten_words
from harness.subjects.described import Process, command_of, read_description
from harness.subjects.target import Target
from kernels.units import Unit
from oracles.worker_process import Answer, Expected, ProviderError, Unsupported, Worker

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
        return _produced(answer, Kernel("python", self.name))

    def origin(self, unit: Unit) -> Origin:
        if self._target.described:
            return Origin()
        file = str(self._target.file) if self._target.file else None
        return Origin(file, self._target.module, self._target.function or "dequantize")

    def close(self) -> None:
        self._worker.close()


class _SpokenTo:
    """A program behind the protocol, with the part of an oracle's interface that a subject needs."""

    def __init__(self, worker: Worker, name: str) -> None:
        self.worker = worker
        self.name = name
        self.version = str(worker.hello.get("version", ""))

    def call(
        self,
        op: str,
        params: Mapping[str, Any] | None = None,
        arrays: Mapping[str, npt.NDArray[Any]] | None = None,
        *,
        timeout: float | None = None,
        expect: Expected | None = None,
    ) -> Answer:
        limit = START_SECONDS if timeout is None else timeout
        return self.worker.call(op, params, arrays, timeout=limit, expect=expect)


class Caller(Protocol):
    """What plays: a pinned oracle, or a program of somebody's."""

    name: str
    version: str

    def call(
        self,
        op: str,
        params: Mapping[str, Any] | None = None,
        arrays: Mapping[str, npt.NDArray[Any]] | None = None,
        *,
        timeout: float | None = None,
        expect: Expected | None = None,
    ) -> Answer: ...


class ProviderSubject:
    """`--subject llama_cpp | formats | <pin>`: an oracle in the subject's role; or a program behind `FILE.yaml`."""

    def __init__(self, oracle: Caller) -> None:
        self._oracle = oracle
        self.name = oracle.name
        self.version = oracle.version

    @classmethod
    def start(cls, target: Target) -> ProviderSubject:
        """The program that a YAML file describes. Raises UsageProblem when it does not start or greet."""
        assert target.file is not None
        found = read_description(target.file)
        assert isinstance(found, Process)
        name = found.name or target.text
        try:
            worker = Worker.start(
                command_of(found, target.file),
                name=f"subject {name}",
                timeout=START_SECONDS,
                cwd=target.file.parent,
            )
        except ProviderError as error:
            lines = error.stderr.strip().splitlines()[-1:]
            raise UsageProblem(
                f"--subject {target.text}: {error.message} {' '.join(lines)}".rstrip()
            ) from None
        return cls(_SpokenTo(worker, name))

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
        """Ends a program that was started for this run; an oracle is closed by the pool that it came from."""
        if isinstance(self._oracle, _SpokenTo):
            self._oracle.worker.close()


def _produced(answer: Answer, kernel: Kernel) -> Produced:
    unstable = answer.result.get("unstable")
    count, first = answer.result.get("unwritten", 0), answer.result.get("first", 0)
    return Produced(
        answer.arrays["values"],
        answer.seconds,
        kernel,
        None if unstable is None else str(unstable),
        unwritten_words(int(count), int(first)),
    )
