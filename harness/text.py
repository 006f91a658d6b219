"""Text that came from outside (a tensor's name, an engine's message), made safe for a terminal."""

from __future__ import annotations

MAX_SHOWN = 200


def printable(text: str, limit: int = MAX_SHOWN) -> str:
    """`text` with control, escape and bidirectional characters written as escapes, cut after `limit` characters.

    Newlines are escaped too, so that a name cannot forge a second line of output.
    """
    shown = "".join(
        ch if ch.isprintable() else ch.encode("unicode_escape").decode("ascii") for ch in text[:limit]
    )
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"
