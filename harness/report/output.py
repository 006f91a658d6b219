"""Writing a report where the command line asked for it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from harness.errors import UsageProblem
from harness.text import printable


def write_text(option: str, target: str, text: str) -> None:
    """Write `text` to the file named behind `option`, whole or not at all. Raises UsageProblem when it cannot be."""
    path = Path(target).absolute()
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")  # a device or a pipe: there is nothing to replace
            return
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageProblem(f"{option}: cannot write {printable(target)}: {error.strerror or error}") from None
