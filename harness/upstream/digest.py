"""A short digest of source text that reformatting and comments leave alone: whether a test has changed at all."""

from __future__ import annotations

import hashlib
import io
import re
import tokenize

DIGITS = 12


def digest(*texts: str) -> str:
    """12 hex digits of `texts` less white space and trailing commas. The comments are the caller's to take off."""
    state = hashlib.sha256()
    for text in texts:
        plain = re.sub(r"\s+", "", text)
        state.update(re.sub(r",([)\]}])", r"\1", plain).encode())
        state.update(b"\0")
    return state.hexdigest()[:DIGITS]


def without_comments(text: str) -> str:
    """Python source less its comments. Source that cannot be split into tokens comes back as it is."""
    lines = text.splitlines(keepends=True)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column] + "\n"
    except (tokenize.TokenError, SyntaxError):
        return text
    return "".join(lines)
