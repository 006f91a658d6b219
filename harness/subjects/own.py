"""Our own numpy references as the subject, in the harness's process."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from harness import __version__
from harness.errors import UsageProblem
from harness.guard import GuardedBuffer, never_written
from harness.subjects.base import Kernel, Origin, Produced, unwritten_words
from harness.verdicts import Verdict
from kernels import provider
from kernels.tables import tables_of
from kernels.units import Unit
from oracles.worker_process import ProviderError


class OwnKernels:
    """`--subject reference`: kernels/<dialect>/<name>/reference.py."""

    name = "reference"
    version = __version__

    def dequantize(
        self, unit: Unit, data: npt.NDArray[np.uint8], shape: tuple[int, ...], *, repeat: int, timeout: float
    ) -> Produced:
        """Decode into memory that was poisoned before, between guard zones; the seconds are those of the decode."""
        try:
            out = GuardedBuffer(4 * int(np.prod(shape, dtype=np.int64)))
            values = out.array(np.float32, shape)
            start = time.perf_counter()
            provider.dequantize(unit.encoding, data, shape, out=values)
            seconds = time.perf_counter() - start
            missed = never_written(out, lambda: provider.dequantize(unit.encoding, data, shape, out=values))
        except (UsageProblem, MemoryError) as error:
            words = str(error) or f"no memory for {shape}"
            raise ProviderError(Verdict.ERROR_RUN, f"{unit.encoding}: {words}") from None
        if overrun := out.overrun():
            raise ProviderError(Verdict.FAIL_OOB, f"{unit.encoding}: the reference {overrun} of its output")
        unstable = None
        for _ in range(repeat - 1):
            again = provider.dequantize(unit.encoding, data, shape)
            if not np.array_equal(again.view(np.uint32), values.view(np.uint32)):
                unstable = "the bits changed from one run to the next"
        kernel = Kernel("cpu", f"kernels/{unit.dialect}/{unit.name}/reference.py:decode")
        return Produced(
            values, seconds, kernel, unstable, unwritten_words(missed.size, missed[0] if missed.size else 0)
        )

    def origin(self, unit: Unit) -> Origin:
        return Origin(
            file=str(unit.path / "reference.py"),
            function="decode",
            tables=dict(tables_of(unit)),
            blockwise=True,
        )

    def close(self) -> None:
        """Nothing is held."""
