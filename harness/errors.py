"""The errors that the harness shows to a person, and the exit code that each one ends in.

Nothing else may reach the terminal: a traceback is a defect of the harness, never the answer to bad input.
"""

from __future__ import annotations

from pathlib import Path

from harness.text import printable


class HarnessError(Exception):
    """Base of every error with a message for a person. `exit_code` is the process status (DESIGN: exit codes)."""

    exit_code = 3


class BadInput(HarnessError):
    """A file that cannot be what it claims. Says where it is wrong, what stood there and what was wanted."""

    exit_code = 2

    def __init__(
        self,
        *,
        file: str | Path,
        field: str,
        got: object,
        wanted: str,
        offset: int | None = None,
        tensor: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.file = str(file)
        self.field = field
        self.offset = offset
        self.tensor = tensor
        self.got = got
        self.wanted = wanted
        self.hint = hint
        super().__init__(self._message())

    def _message(self) -> str:
        where = [printable(self.file)]
        if self.tensor is not None:
            where.append(f"tensor {printable(self.tensor)}")
        where.append(f"field {printable(self.field)}")
        if self.offset is not None:
            where.append(f"offset {self.offset} (0x{self.offset:x})")
        text = f"{', '.join(where)}: got {printable(str(self.got))}, wanted {printable(self.wanted)}"
        return f"{text} ({printable(self.hint)})" if self.hint else text


class UsageProblem(HarnessError):
    """The command line asks for something that does not exist or does not fit together."""

    exit_code = 2


class Unavailable(HarnessError):
    """The harness could not do its work: an oracle is missing or broken, a download failed, a lock was not had."""

    exit_code = 3
