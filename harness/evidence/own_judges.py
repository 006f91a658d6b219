"""Where judges of our own may carry a PASS alone. Everywhere else an engine that the row lists has to be among them."""

from __future__ import annotations

from collections.abc import Mapping

OWN_ALONE: Mapping[tuple[str, str], frozenset[str]] = {
    # Activations of a dot product: llama.cpp writes this encoding and has no decode of it, nor has gguf-py.
    ("dequantize", "ggml.q8_1"): frozenset({"formula", "known_answers", "reference"}),
}
"""(op, encoding) for which no engine has the op -> the judges of our own that stand in for it."""


def own_may_judge(op: str, encoding: str | None, pins: frozenset[str]) -> bool:
    """Whether one of the own judges `pins` may carry a PASS of this op and encoding without an engine."""
    return bool(pins & OWN_ALONE.get((op, encoding or ""), frozenset()))
