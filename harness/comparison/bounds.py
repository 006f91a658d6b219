"""Bounds: how far a result may be from the oracle's, as data with a derivation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Bound:
    """A limit on the error of every single element. Means are never decided on.

    `limit` None asks for the same bits (NaN payloads aside, -0.0 distinct). Otherwise it is the largest absolute
    error that passes, one number or one per element of the result. `derivation` says where it comes from;
    `upstream` is the bound that the engine's own tests use, kept beside ours: necessary, never sufficient.
    """

    limit: float | npt.NDArray[np.float64] | None
    derivation: str
    upstream: float | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and not np.all(np.isfinite(self.limit) & (np.asarray(self.limit) >= 0)):
            raise ValueError("a bound is finite and not negative")

    @property
    def exact(self) -> bool:
        return self.limit is None

    def at(self, index: int) -> float:
        """The limit of the element with this flat index; 0.0 when the bits must be the same."""
        if self.limit is None:
            return 0.0
        limits = np.asarray(self.limit, dtype=np.float64)
        return float(limits) if limits.ndim == 0 else float(limits.reshape(-1)[index])

    def between(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """The limits of a run of elements by flat index, broadcastable against that run."""
        limits = np.asarray(0.0 if self.limit is None else self.limit, dtype=np.float64)
        return limits if limits.ndim == 0 else limits.reshape(-1)[start:stop]


BIT_EXACT = Bound(
    None, "the decode is defined exactly: same NaN mask, otherwise the same bits, -0.0 distinct"
)
"""The bound of every decode whose arithmetic is exact in float32."""


def dot_product_bound(
    terms: int, magnitude: npt.NDArray[np.float64], unit_roundoff: float, upstream: float | None = None
) -> Bound:
    """Bound of a sum of `terms` products that is accumulated in any order: `terms * u * sum|a||b|`.

    `magnitude` is `|a| @ |b|` per element of the result, in float64; `unit_roundoff` is that of the accumulation
    type (2**-24 for float32). Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
    """
    gamma = terms * unit_roundoff / (1.0 - terms * unit_roundoff)
    return Bound(
        gamma * np.asarray(magnitude, dtype=np.float64),
        f"gamma_{terms}(u={unit_roundoff:g}) * sum|a||b|",
        upstream,
    )
