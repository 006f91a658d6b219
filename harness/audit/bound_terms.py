"""Bounds as numbers, as far as their words have any: what can be held against what."""

from __future__ import annotations

import re

EXACT = re.compile(r"\bthe same (?:bits|bytes|fields)\b|\bbit[ -](?:for[ -]bit|exact)\b|\bdefined exactly\b")
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+|\s*\^\s*-?\d+)?"
_TERM = re.compile(
    rf"\b(?P<kind>rtol|atol|nmse|rmse|mse|max[ _-]abs|max[ _-]ulp|kl)\b\s*(?:<=|<|≤|=|:|below|at most|of)?\s*"
    rf"(?P<numbers>{_NUMBER}(?:\s*/\s*{_NUMBER})*)",
    re.IGNORECASE,
)
"""A named limit and its number: `rtol 1e-3`, `NMSE <= 5e-4`, `atol=2^-10`, or several by dtype: `atol 1/1.5`."""


def exact(text: str) -> bool:
    """Whether a bound asks for the same bits, bytes or fields: nothing is below it."""
    return EXACT.search(text) is not None


def terms(text: str) -> dict[str, float]:
    """The numbers of a bound by what they limit, in small letters: `{"rtol": 0.001}`. The largest of several.
    Formulas have none."""
    found: dict[str, float] = {}
    for match in _TERM.finditer(text):
        kind = re.sub(r"[ -]", "_", match["kind"].lower())
        found[kind] = max(found.get(kind, 0.0), *map(_number, match["numbers"].split("/")))
    return found


def _number(text: str) -> float:
    base, power, exponent = text.replace(" ", "").partition("^")
    return float(base) ** int(exponent) if power else float(base)
