"""A GGUF file that holds what a real checkpoint does not: every encoding, every code, every kind of scale.

`demo:edge-cases`. One tensor for each encoding and kind of content, named `<encoding>.<content>`, a block a row.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cases.generators import suite
from harness.containers.gguf_write import TensorData, write_gguf
from harness.paths import REPOSITORY
from kernels.units import Unit, load_units

RANDOM_BLOCKS = 2000
LARGEST = 20_000
"""Contents of more blocks than this (every one of 65,536 half-precision scales) are left to the test-suite."""
NEVER_STORED = ("ggml.q8_1", "ggml.q8_k")
"""Encodings of activations: no checkpoint holds them."""
SOURCES = (
    "cases/edge_checkpoint.py",
    "cases/generators.py",
    "cases/special_values.py",
    "harness/containers/gguf_write.py",
)


def stored_units() -> list[Unit]:
    """The units that a GGUF file can hold."""
    return [
        unit
        for unit in load_units().values()
        if "gguf" in unit.container_ids and unit.encoding not in NEVER_STORED
    ]


def key() -> str:
    """Digest of all that the file is made from: it changes when the file would."""
    digest = hashlib.sha256()
    for path in (
        *(REPOSITORY / name for name in SOURCES),
        *(unit.path / "unit.yaml" for unit in stored_units()),
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def write(path: Path) -> None:
    """Write the file. The same sources give the same bytes."""
    tensors = []
    for unit in stored_units():
        seed = int.from_bytes(hashlib.sha256(unit.encoding.encode()).digest()[:4], "little")
        for case in suite(unit, random=RANDOM_BLOCKS, seed=seed):
            if len(case.blocks) > LARGEST:
                continue
            name = f"{unit.name}.{case.name.replace(',', '').replace(' ', '_')}"
            shape = (len(case.blocks), unit.block_elems)
            tensors.append(TensorData(name, unit.container_ids["gguf"], shape, case.blocks))
    write_gguf(path, {"general.architecture": "none", "general.name": "edge cases"}, tensors)
