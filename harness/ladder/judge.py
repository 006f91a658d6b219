"""What the ladder asks of an oracle. `oracles.pool.Oracle` fulfils it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from oracles.worker_process import Answer, Expected


class Judge(Protocol):
    """A pinned provider in the oracle's role. Raises ProviderError and Unsupported."""

    name: str
    version: str
    pin: dict[str, Any]

    @property
    def failures(self) -> Mapping[tuple[str, str], Any]:
        """(op, encoding) -> how the known answers failed."""
        ...

    @property
    def ops(self) -> dict[str, tuple[str, ...]]: ...

    def supports(self, op: str, encoding: str) -> bool: ...

    def why_not(self, op: str, encoding: str) -> str | None: ...

    def call(
        self,
        op: str,
        params: Mapping[str, Any] | None = None,
        arrays: Mapping[str, npt.NDArray[Any]] | None = None,
        *,
        timeout: float | None = None,
        expect: Expected | None = None,
        into: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Answer: ...


def decoded(
    judge: Judge, encoding: str, data: npt.NDArray[np.uint8], shape: tuple[int, ...], timeout: float
) -> tuple[npt.NDArray[np.float32], float]:
    """The judge's decode of `data`: float32 `[shape]`, and the seconds that the decode alone took."""
    answer = judge.call(
        "dequantize",
        {"encoding": encoding, "shape": list(shape)},
        {"data": data},
        timeout=timeout,
        expect={"values": ("float32", shape)},
    )
    return answer.arrays["values"], answer.seconds
