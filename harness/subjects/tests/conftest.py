"""Subjects written into a folder of their own, and started as the command line starts them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.subjects.remote import PythonSubject
from harness.subjects.target import parse_target
from kernels.units import unit

F32 = unit("ggml.f32")
SHAPE = (2, 4)
RIGHT = "np.frombuffer(data, '<f4').reshape(shape)"


def decode(subject: PythonSubject, values: np.ndarray | None = None, *, timeout: float = 30, repeat: int = 1):
    """The subject's decode of an F32 tensor with these values (0, 1, 2, … when none are given)."""
    given = np.arange(8, dtype="<f4").reshape(SHAPE) if values is None else values.astype("<f4")
    return subject.dequantize(
        F32, given.reshape(-1).view(np.uint8), given.shape, repeat=repeat, timeout=timeout
    )


@pytest.fixture
def subject(tmp_path: Path) -> Iterator[Callable[..., PythonSubject]]:
    """`subject(source, function="dequantize", name="subject.py")`: the source starts below `import numpy as np`."""
    started = []

    def start(source: str, function: str | None = "dequantize", name: str = "subject.py") -> PythonSubject:
        file = tmp_path / name
        file.write_text("import numpy as np\n" + textwrap.dedent(source))
        started.append(PythonSubject(parse_target(f"{file}:{function}" if function else str(file))))
        return started[-1]

    yield start
    for each in started:
        each.close()
