"""From a tensor that differs to the smallest input that still does, written down as a reproducer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness import repro
from harness.ladder.judge import Judge, decoded
from harness.ladder.tensor import compare_tensor, row_bytes, rows_of
from harness.ladder.tensors import BASE_SECONDS, TensorVerdict
from harness.subjects.base import Subject
from harness.verdicts import Side


def smallest_reproducer(
    folder: Path,
    found: TensorVerdict,
    data: npt.NDArray[np.uint8],
    subject: Subject,
    judge: Judge,
    *,
    checkpoint_sha256: str,
    seed: int,
) -> Path | None:
    """Write a reproducer into `folder` and return its script; None when there is nothing to show.

    Tries the worst element's block alone, then its row alone, then the whole tensor: some faults need the
    neighbours, the end of the tensor or a large offset. `data` is the tensor's bytes, `[n_bytes] uint8`.
    Raises ProviderError when the judge fails, UsageProblem when the folder cannot be written.
    """
    outcome, unit, tensor = found.outcome, found.unit, found.tensor
    if outcome.side is Side.ORACLE or outcome.values is None or unit is None or outcome.comparison is None:
        return None
    if outcome.comparison.worst is None:
        return None
    where = outcome.comparison.worst.place
    _, columns = rows_of(tensor.shape)
    row = data[row_bytes(unit, range(where.row, where.row + 1), columns)]
    block = row[where.block * unit.block_bytes : (where.block + 1) * unit.block_bytes]
    origin = subject.origin(unit)

    def finding(shape: tuple[int, ...], window: tuple[int, int], reduced_to: str) -> repro.Finding:
        return repro.Finding(
            tensor=tensor.name,
            encoding=unit.encoding,
            shape=shape,
            window=window,
            block_elems=unit.block_elems,
            reduced_to=reduced_to,
            row=where.row,
            block=where.block,
            oracle=f"{judge.name} {judge.version}",
            subject=f"{subject.name} {subject.version}",
            subject_file=origin.file,
            subject_module=origin.module,
            subject_function=origin.function,
            blockwise=origin.blockwise,
            checkpoint_sha256=checkpoint_sha256,
            seed=seed,
        )

    for name, piece, shape in (("block", block, (1, unit.block_elems)), ("row", row, (1, columns))):
        again = compare_tensor(unit, piece, shape, subject, [judge], repeat=1, timeout=BASE_SECONDS)
        if again.verdict is outcome.verdict and again.values is not None:
            wanted, _ = decoded(judge, unit.encoding, piece, shape, BASE_SECONDS)
            return repro.write(
                folder, finding(shape, (0, shape[1]), name), piece, again.values, wanted, origin.tables
            )
    wanted, _ = decoded(judge, unit.encoding, row, (1, columns), BASE_SECONDS)
    window = (where.row * columns, (where.row + 1) * columns)
    got = outcome.values.reshape(-1)[window[0] : window[1]]
    return repro.write(folder, finding(tensor.shape, window, "tensor"), data, got, wanted, origin.tables)
