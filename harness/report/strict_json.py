"""JSON that every parser accepts: NaN and the infinities are written as strings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any


def strict(value: Any) -> Any:
    """`value` with each float that JSON cannot hold replaced by "NaN", "Infinity" or "-Infinity"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [strict(item) for item in value]
    return value


def dumps(value: Any) -> str:
    """`value` as indented strict JSON with a final newline."""
    return json.dumps(strict(value), indent=2, allow_nan=False) + "\n"
