"""Lists of layers as our data files write them."""

from __future__ import annotations


def layer_numbers(text: str) -> tuple[int, ...]:
    """The layers in a list such as `0-27`, `1,3,6-10:2` (every second), `0-47 except 3-47:4`."""
    listed, _, without = text.partition(" except ")
    left_out = set(layer_numbers(without)) if without else set()
    found: list[int] = []
    for part in listed.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return tuple(layer for layer in found if layer not in left_out)
