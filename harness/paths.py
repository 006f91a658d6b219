"""Where the harness finds its data and keeps what it may delete again."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageProblem

REPOSITORY = Path(__file__).resolve().parent.parent
KERNELS = REPOSITORY / "kernels"
ORACLES = REPOSITORY / "oracles"
RECIPES = REPOSITORY / "recipes"


def cache_root() -> Path:
    """`$HARNESS_CACHE`, else `$XDG_CACHE_HOME/quant-harness`, else `~/.cache/quant-harness`. Not created here."""
    explicit = os.environ.get("HARNESS_CACHE")
    try:
        if explicit:
            return Path(explicit).expanduser().absolute()
        base = os.environ.get("XDG_CACHE_HOME")
        return (Path(base).expanduser() if base else Path.home() / ".cache") / "quant-harness"
    except (RuntimeError, OSError) as error:
        raise UsageProblem(
            f"no folder for the cache: {error}; set HARNESS_CACHE to one that can be written"
        ) from None
