"""Reading one field after the other, each checked against the bytes that remain before it is used."""

from __future__ import annotations

import re
import struct

from harness.containers.checkpoint import ByteOrder
from harness.containers.files import MappedFile
from harness.containers.gguf_format import MAX_STRING_BYTES, MAX_STRING_ITEMS
from harness.errors import BadInput


class Cursor:
    """A position in a GGUF file. Nothing is allocated by a length that the file claims but does not hold."""

    def __init__(self, file: MappedFile, order: ByteOrder, position: int) -> None:
        self.file = file
        self.order = order
        self.position = position
        prefix = "<" if order == "little" else ">"
        self._u32 = struct.Struct(f"{prefix}I")
        self._u64 = struct.Struct(f"{prefix}Q")

    @property
    def remaining(self) -> int:
        return self.file.size - self.position

    def bad(
        self,
        field: str,
        offset: int,
        got: object,
        wanted: str,
        *,
        tensor: str | None = None,
        hint: str | None = None,
    ) -> BadInput:
        """The error for a field of this file."""
        return BadInput(
            file=self.file.path, field=field, offset=offset, tensor=tensor, got=got, wanted=wanted, hint=hint
        )

    def skip(self, nbytes: int, field: str, what: str) -> int:
        """Steps over `nbytes` bytes and returns where they began."""
        start = self.position
        if nbytes > self.remaining:
            raise self.bad(
                field,
                start,
                f"{self.remaining} bytes before the end of the file",
                f"{nbytes} bytes of {what}",
            )
        self.position = start + nbytes
        return start

    def u32(self, field: str) -> int:
        value: int = self._u32.unpack_from(self.file.buffer, self.skip(4, field, "a u32"))[0]
        return value

    def u64(self, field: str) -> int:
        value: int = self._u64.unpack_from(self.file.buffer, self.skip(8, field, "a u64"))[0]
        return value

    def skip_string(self, field: str, maximum: int, rule: str) -> tuple[int, int]:
        """Steps over a string and returns (where its bytes begin, how many). `rule` says why `maximum` holds."""
        at = self.position
        length = self.u64(field)
        if length > self.remaining:
            raise self.bad(
                field,
                at,
                f"a string of {length} bytes",
                f"at most {self.remaining}, the bytes that remain in the file",
            )
        if length > maximum:
            raise self.bad(field, at, f"a string of {length} bytes", f"at most {maximum} bytes ({rule})")
        return self.skip(length, field, "a string"), length

    def string(self, field: str, maximum: int, rule: str) -> bytes:
        """The bytes of a string; they need not be UTF-8."""
        start, length = self.skip_string(field, maximum, rule)
        return self.file.buffer[start : start + length]

    def skip_strings(self, count: int, field: str, count_at: int) -> None:
        """Steps over `count` strings, checking each length."""
        if count > MAX_STRING_ITEMS:
            raise self.bad(
                field, count_at, f"{count} strings", f"at most {MAX_STRING_ITEMS} (this reader's limit)"
            )
        # Inlined: a vocabulary has 10^5 strings, and opening a file should not take longer than reading its header.
        unpack, buffer, size = self._u64.unpack_from, self.file.buffer, self.file.size
        at = self.position
        for index in range(count):
            after = at + 8
            if after <= size:
                length = unpack(buffer, at)[0]
                after += length
            if after > size or length > MAX_STRING_BYTES:
                self.position = at
                self.skip_string(f"{field}[{index}]", MAX_STRING_BYTES, "the engine's limit")
            at = after
        self.position = at


_LIKE_AN_ESCAPE = re.compile(rb"\\x[0-9a-f]{2}")


def text_of(raw: bytes) -> str:
    """`raw` as text that can always be encoded again, one text for each `raw`.

    UTF-8 stays as it is. Where a byte is not UTF-8 it becomes `\\xff`, and a backslash `\\\\`; so it does in UTF-8 that
    holds what looks like such an escape. `oracles/serve.py` writes the names of an engine in the same way.
    """
    if not _LIKE_AN_ESCAPE.search(raw):
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return raw.replace(b"\\", b"\\\\").decode("utf-8", errors="backslashreplace")
