"""What the families of ggml cases share: their rows, and how a family of decodes or of products is declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.comparison.bounds import BIT_EXACT
from harness.containers.ggml_types import ggml_types
from harness.evidence.case import Ancestor, Family, Refusal
from harness.rows.model import Dimension
from kernels.units import load_units, unit

NO_SUCH_FIELD = "the encoding has no such field"
"""Why a value of an axis is no case of an encoding."""


def rows_of(encoding: str | None) -> tuple[str, ...]:
    """The coverage rows of an encoding, as its unit names them."""
    return unit(encoding).rows if encoding else ()


def present(encodings: Iterable[str]) -> tuple[str, ...]:
    """Those that have a unit: a type of GGUF files whose unit was retired has no cases any more.

    Raises UsageProblem for a name that is no encoding's.
    """
    units, typed = load_units(), {kind.encoding for kind in ggml_types().values()}
    return tuple(name for name in encodings if name in units or (name not in typed and unit(name)))


def decodes(
    name: str,
    encodings: tuple[str, ...],
    axes: Mapping[str, tuple[str, ...]],
    files: tuple[Path, ...],
    *,
    backends: tuple[str, ...] = ("cpu",),
    op: str = "dequantize",
    bound: str = BIT_EXACT.derivation,
    refuse: Refusal | None = None,
    upstream: tuple[Ancestor, ...] = (),
) -> Family:
    """Cases of encoded data made values (Materialize): bit for bit, unless another bound is given."""
    return Family(
        name=name,
        op=op,
        dimension=Dimension.MATERIALIZE,
        backends=backends,
        encodings=present(encodings),
        axes=axes,
        rows=rows_of,
        bound=bound,
        files=files,
        upstream=upstream,
        refuse=refuse,
    )


def products(
    name: str,
    encodings: tuple[str, ...],
    axes: Mapping[str, tuple[str, ...]],
    files: tuple[Path, ...],
    *,
    bound: str,
    backends: tuple[str, ...] = ("cpu",),
    refuse: Refusal | None = None,
    upstream: tuple[Ancestor, ...] = (),
) -> Family:
    """Cases of products with encoded weights (Compute)."""
    return Family(
        name=name,
        op="matmul",
        dimension=Dimension.COMPUTE,
        backends=backends,
        encodings=present(encodings),
        axes=axes,
        rows=rows_of,
        bound=bound,
        files=files,
        upstream=upstream,
        refuse=refuse,
    )
