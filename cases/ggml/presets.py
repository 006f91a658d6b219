"""Families of preset cases: whole files that llama.cpp's quantizer writes, read and decoded by us.

Which files there are, what each tensor of them is stored as, and which the quantizer refuses is data: `recipes/derived/`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from cases.ggml.family import present
from harness.comparison.bounds import BIT_EXACT
from harness.derived import DERIVED, MARK, parse
from harness.evidence.case import Family
from harness.paths import REPOSITORY
from harness.recorded import RecordedFile, recorded
from harness.rows.model import Dimension
from kernels.units import unit

SOURCES = ("tiny", "tiny-moe", "smollm2")
LARGE = "smollm2"
QUICK = frozenset({"Q4_0", "Q2_K", "Q4_K_M", "MXFP4_MOE"})
"""Presets of the large source that every change runs: a legacy type, K types with fallbacks, a mix of five, no expert."""
SLOW = "a file of 62 to 540 MB that the quantizer writes in seconds to minutes and three decoders read whole"


def files() -> dict[str, RecordedFile]:
    """Every file that the quantizer writes, by its name: `tiny@Q4_K_M`; without those that hold a retired encoding."""
    return {
        f"{source}{MARK}{variant}": entry
        for source in SOURCES
        for variant, entry in recorded(source).items()
        if entry.types is not None and len(present(held := encodings_of(entry))) == len(held)
    }


def encodings_of(entry: RecordedFile) -> tuple[str, ...]:
    """The encodings of a file's tensors, each once."""
    words = {word for text in (entry.types or {}).values() for word in text.split()}
    return tuple(f"ggml.{name}" for name in sorted({word.partition("*")[0] for word in words}))


def refused() -> dict[str, str]:
    """Every file that it refuses to write -> what it says."""
    return {
        f"{source}{MARK}{variant}": entry.refused
        for source in SOURCES
        for variant, entry in recorded(source).items()
        if entry.refused is not None
    }


def is_quick(name: str) -> bool:
    """Whether every change reads this file."""
    source, _, variant = name.partition(MARK)
    return source != LARGE or variant in QUICK


def _rows(chosen: Mapping[str, str]) -> tuple[str, ...]:
    return (parse(chosen["file"]).row,)


def _no_encoding(_encoding: str | None) -> tuple[str, ...]:
    return ()


def _sources() -> tuple[Path, ...]:
    """What the cases are made from: besides this file, the decode of every encoding that some file holds."""
    here = Path(__file__).parent
    units = [
        unit(name) for name in sorted({name for entry in files().values() for name in encodings_of(entry)})
    ]
    return (
        *(here / name for name in ("presets.py", "test_preset_cases.py", "whole_file.py", "container.py")),
        *(REPOSITORY / "harness" / name for name in ("derived.py", "recorded.py")),
        *sorted(DERIVED.glob("*.yaml")),
        *(found.path / name for found in units for name in ("unit.yaml", "reference.py")),
        *sorted(
            {
                found.path.parent / "tables" / f"{name}.npy"
                for found in units
                for name in found.tables.values()
            }
        ),
    )


_QUICK = tuple(name for name in files() if is_quick(name))
_SLOW = tuple(name for name in files() if not is_quick(name))

_family = functools.partial(
    Family, backends=("cpu",), encodings=(), rows=_no_encoding, rows_by_axes=_rows, files=_sources()
)
_types = functools.partial(_family, op="recognize", dimension=Dimension.RECOGNIZE, bound="the same fields")
_decode = functools.partial(
    _family, op="dequantize", dimension=Dimension.MATERIALIZE, bound=BIT_EXACT.derivation
)

TYPES = _types(name="ggml.whole_file_types", axes={"file": _QUICK})
TYPES_SLOW = _types(name="ggml.whole_file_types_nightly", axes={"file": _SLOW}, nightly=SLOW)
DECODE = _decode(name="ggml.whole_file_decode", axes={"file": _QUICK})
DECODE_SLOW = _decode(name="ggml.whole_file_decode_nightly", axes={"file": _SLOW}, nightly=SLOW)
