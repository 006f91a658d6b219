"""What the ladder asks of a subject, whoever plays it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kernels.units import Unit


@dataclass(frozen=True)
class Kernel:
    """The kernel that really ran."""

    backend: str
    name: str


@dataclass(frozen=True)
class Produced:
    """One decode: `values` float32 `[shape]`, the seconds that the decode alone took, the kernel that ran.

    `unstable` says where a repetition on the same bytes gave other bits, None when it did not or was not asked for.
    `unwritten` says which elements were left as they were in memory that was given, None when all were written.
    """

    values: npt.NDArray[np.float32]
    seconds: float
    kernel: Kernel
    unstable: str | None = None
    unwritten: str | None = None


def unwritten_words(count: int, first: int) -> str | None:
    """What `Produced.unwritten` says about `count` elements, the first of them at this flat index."""
    return f"{count} elements were never written, the first at {first}" if count else None


@dataclass(frozen=True)
class Origin:
    """Where the subject's function can be imported from, for a reproducer; all None when it cannot.

    `blockwise`: the function takes blocks `[n, block_bytes]` and these `tables` by name, as a unit's reference does.
    """

    file: str | None = None
    module: str | None = None
    function: str | None = None
    blockwise: bool = False
    tables: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


class Subject(Protocol):
    """Raises `oracles.worker_process.ProviderError` for what goes wrong, `Unsupported` for what it does not offer."""

    name: str
    version: str

    def dequantize(
        self, unit: Unit, data: npt.NDArray[np.uint8], shape: tuple[int, ...], *, repeat: int, timeout: float
    ) -> Produced: ...

    def origin(self, unit: Unit) -> Origin: ...

    def close(self) -> None: ...
