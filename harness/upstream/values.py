"""Values read from source: what is known of them, and one text for equal ones wherever they come from."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class Unknown(Exception):
    """The value cannot be told from the source alone; the words say why."""


@dataclass(frozen=True)
class Opaque:
    """A value that is known by its text only."""

    text: str


def bound_names(target: ast.expr, value: Any) -> dict[str, Any]:
    """What a loop over `value` binds. Unknown when the shapes do not fit."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (tuple, list)):
        if len(target.elts) != len(value):
            raise Unknown("a loop that unpacks another number of values")
        found: dict[str, Any] = {}
        for part, element in zip(target.elts, value, strict=True):
            found |= bound_names(part, element)
        return found
    raise Unknown("a loop over a target that is not a name")


def canonical(value: Any) -> str:
    """One text for equal values, whether they come from source or from a YAML file: tuples are lists, members names."""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)


def has_call(value: Any) -> bool:
    """Whether a constructor's call is in `value`, of which only the text is known."""
    if isinstance(value, Opaque):
        return "(" in value.text
    if isinstance(value, Mapping):
        return any(map(has_call, value.values()))
    return isinstance(value, (list, tuple)) and any(map(has_call, value))


def _plain(value: Any) -> Any:
    if isinstance(value, Opaque):
        return value.text
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1 << 53 else value
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [_plain(item) for item in value]
    return repr(value)
