"""A file as a read-only map: nothing of it is loaded until it is looked at. Shared by all containers."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import stat
import weakref
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import BadInput, UsageProblem
from harness.text import printable

_HASH_CHUNK = 1 << 20


class MappedFile:
    """One open file: `data` is a read-only `uint8 [size]` view of it. Close it, or use it in a `with` statement.

    Views taken from `data` stay valid after `close`; the map goes when the last of them does.
    """

    def __init__(self, path: Path) -> None:
        """Raises UsageProblem when `path` is not a file that can be read, BadInput when it is empty."""
        shown = printable(str(path))
        try:
            # A named pipe or a device would block or never end, so look before opening.
            kind = path.stat().st_mode
            if stat.S_ISDIR(kind):
                raise UsageProblem(f"{shown} is a directory, not a checkpoint file{_inside(path)}")
            if not stat.S_ISREG(kind):
                raise UsageProblem(f"{shown} is not a regular file (a pipe, a socket or a device)")
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise UsageProblem(f"{shown}: there is no such file") from None
        except PermissionError:
            raise UsageProblem(f"{shown}: permission denied; it cannot be read by this user") from None
        except (OSError, ValueError) as error:
            raise UsageProblem(f"{shown} cannot be opened: {_reason(error)}") from None
        self._closer = weakref.finalize(self, os.close, fd)
        self._fd = fd
        self.path = path
        if os.fstat(fd).st_size == 0:
            self._closer()
            raise BadInput(file=path, field="file size", offset=0, got="0 bytes", wanted="a checkpoint")
        try:
            self.buffer = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            self._closer()
            raise UsageProblem(f"{shown} cannot be mapped: {_reason(error)}") from None
        self.size = len(self.buffer)
        self._data: npt.NDArray[np.uint8] | None = np.frombuffer(self.buffer, dtype=np.uint8)

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The whole file, read-only. ValueError after `close`, so that nobody works on bytes that are gone."""
        if self._data is None:
            raise ValueError(f"{self.path} is closed")
        return self._data

    def hash_into(self, digest: hashlib._Hash) -> None:
        """Feeds the file to `digest` in pieces, without touching the map (so that resident memory stays small).

        ValueError after `close`.
        """
        if self._data is None:  # the descriptor may be another file's by now
            raise ValueError(f"{self.path} is closed")
        at = 0
        while chunk := os.pread(self._fd, _HASH_CHUNK, at):
            digest.update(chunk)
            at += len(chunk)

    def release(self) -> None:
        """Gives back the memory of the pages that were read; they are read from the file again when touched."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.buffer.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Closes the file; doing it twice is fine."""
        self._data = None
        # While views are in use the map cannot be closed: it is freed with the last of them.
        with contextlib.suppress(BufferError):
            self.buffer.close()
        self._closer()

    def __enter__(self) -> MappedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reason(error: Exception) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return printable(strerror or str(error))


def _inside(folder: Path) -> str:
    """The checkpoint files in a folder that was given where a file was wanted, as the end of a sentence."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".gguf")
    except OSError:
        return ""
    return f"; it holds {', '.join(map(printable, names[:3]))}" if names else ""
