"""Reproducers: one difference as a folder that shows it again without the harness.

`repro.py` needs Python and numpy (and the subject, when it is code that can be imported), `repro.npz` holds the bytes
and both answers, `repro.sha256` the digest of the data. The input is the smallest of block, row and tensor on which
the subject still differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageProblem


@dataclass(frozen=True)
class Finding:
    """What a reproducer is about. `shape` is that of the input; `window` the flat elements that are compared."""

    tensor: str
    encoding: str
    shape: tuple[int, ...]
    window: tuple[int, int]
    block_elems: int
    reduced_to: str
    row: int
    block: int
    oracle: str
    subject: str
    subject_file: str | None
    subject_module: str | None
    subject_function: str | None
    blockwise: bool
    checkpoint_sha256: str
    seed: int


def write(
    folder: Path,
    finding: Finding,
    data: npt.NDArray[np.uint8],
    subject: npt.NDArray[Any] | None,
    oracle: npt.NDArray[np.float32],
    tables: Mapping[str, npt.NDArray[Any]],
) -> Path:
    """Write the three files into `folder` and return the path of `repro.py`.

    `data` `[n_bytes] uint8` is the encoded input; `subject` and `oracle` hold the answers of the window, flat;
    `subject` None when it gave no array; `tables` are those that a blockwise function takes. Raises UsageProblem when the folder cannot be written.
    """
    arrays: dict[str, Any] = {"data": data, "oracle": oracle.reshape(-1)}
    arrays |= {f"table_{name}": table for name, table in tables.items()}
    if subject is not None:
        arrays["subject"] = np.ascontiguousarray(subject).reshape(-1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / "repro.npz"
        np.savez(archive, **arrays)
        with archive.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        (folder / "repro.sha256").write_text(f"{digest}  repro.npz\n", encoding="ascii")
        script = folder / "repro.py"
        template = Template((Path(__file__).parent / "repro_template.py.txt").read_text(encoding="utf-8"))
        facts = repr(json.dumps(asdict(finding)))
        script.write_text(template.substitute(facts=facts), encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"--repro {folder}: {error.strerror or error}") from None
    return script
