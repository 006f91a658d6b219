"""Where the harness finds its data and keeps what it may delete again."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
KERNELS = REPOSITORY / "kernels"
ORACLES = REPOSITORY / "oracles"
RECIPES = REPOSITORY / "recipes"


def cache_root() -> Path:
    """`$HARNESS_CACHE`, else `$XDG_CACHE_HOME/quant-harness`, else `~/.cache/quant-harness`. Not created here."""
    explicit = os.environ.get("HARNESS_CACHE")
    if explicit:
        return Path(explicit).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "quant-harness"
