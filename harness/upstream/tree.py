"""The sources of another checkout, sdist or wheel, read without writing anything to disk.

Archives are read in one pass, members are never extracted, links are never followed, and what is read is bounded.
"""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tarfile import EOFHeaderError, HeaderError, ReadError  # type: ignore[attr-defined]
from typing import Self

from harness.errors import BadInput, Unavailable, UsageProblem
from harness.text import printable

MOST_MEMBERS = 500_000
MOST_BYTES_A_FILE = 8 << 20
MOST_BYTES = 1 << 30
MOST_UNPACKED = 16 << 30
"""What a tree may hold and what of it is kept: engines stay below a tenth of each."""

_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)
"""What the archive modules raise: a broken file, an encrypted member, a compression that they do not know."""

SKIPPED_FOLDERS = frozenset({".git", ".hg", "node_modules", "__pycache__", ".venv"})


@dataclass(frozen=True)
class Tree:
    """The sources of one release. `files` are relative to the engine's root, which `prefix` names inside the tree."""

    source: Path
    prefix: str
    files: dict[str, bytes]
    unread: tuple[str, ...] = ()
    """Wanted files that are too large to be read."""

    def text(self, path: str) -> str | None:
        """A file as text (bytes that are not UTF-8 replaced), or None when the tree has no such file."""
        data = self.files.get(path)
        return None if data is None else data.decode("utf-8", errors="replace")


def read_tree(source: Path, wanted: Callable[[str], bool], known: Iterable[str]) -> Tree:
    """The files of `source` for which `wanted(name)` holds, relative to the folder that holds most of the `known` paths.

    `source` is a directory, a `.tar.gz`, `.tgz`, `.tar`, `.zip` or `.whl`. BadInput when it is broken, climbs out of
    itself or is beyond the bounds above; UsageProblem when there is nothing; Unavailable when no known path is in it.
    """
    names: list[str] = []
    kept: dict[str, bytes] = {}
    unread: list[str] = []
    total = 0
    for name, size, read in _members(source):
        names.append(name)
        if len(names) > MOST_MEMBERS:
            raise BadInput(
                file=source,
                field="members",
                got=f"more than {MOST_MEMBERS}",
                wanted="the sources of one engine",
            )
        if not wanted(name):
            continue
        if size > MOST_BYTES_A_FILE:
            unread.append(name)
            continue
        total += size
        if total > MOST_BYTES:
            raise BadInput(
                file=source, field="size", got=f"more than {MOST_BYTES} bytes of source", wanted="one engine"
            )
        kept[name] = _contents(source, read)
    prefix = _root(names, known)
    if prefix is None:
        raise Unavailable(
            f"{printable(str(source))}: none of the files of the inventory is in it; wanted the engine's root or an "
            "archive of its sources (a wheel seldom holds tests)"
        )
    inside = {name[len(prefix) :]: data for name, data in kept.items() if name.startswith(prefix)}
    left = tuple(name[len(prefix) :] for name in unread if name.startswith(prefix))
    return Tree(source=source, prefix=prefix, files=inside, unread=left)


def _root(names: Iterable[str], known: Iterable[str]) -> str | None:
    """The prefix under which the most of `known` stand; the shortest of several."""
    endings: dict[str, list[str]] = {}
    for path in known:
        endings.setdefault(PurePosixPath(path).name, []).append(path)
    counts: dict[str, int] = {}
    for name in names:
        for path in endings.get(name.rpartition("/")[2], ()):
            if name == path or name.endswith(f"/{path}"):
                prefix = name[: len(name) - len(path)]
                counts[prefix] = counts.get(prefix, 0) + 1
    if not counts:
        return None
    return min(counts, key=lambda prefix: (-counts[prefix], len(prefix), prefix))


Member = tuple[str, int, Callable[[], bytes]]


def _members(source: Path) -> Iterator[Member]:
    shown = printable(str(source))
    try:
        kind = source.stat().st_mode
    except OSError as error:
        raise UsageProblem(f"--tree {shown}: {error.strerror or error}") from None
    if stat.S_ISDIR(kind):
        yield from _of_directory(source)
    elif not stat.S_ISREG(kind):
        raise UsageProblem(f"--tree {shown}: neither a folder nor an archive")
    elif source.name.endswith((".zip", ".whl")):
        yield from _of_zip(source)
    elif source.name.endswith((".tar.gz", ".tgz", ".tar")):
        yield from _of_tar(source)
    else:
        raise UsageProblem(f"--tree {shown}: wanted a folder, .tar.gz, .tgz, .tar, .zip or .whl")


def _of_directory(source: Path) -> Iterator[Member]:
    for folder, folders, files in os.walk(source, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(folder, name)
            try:
                found = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield path.relative_to(source).as_posix(), found.st_size, _reader(path)


def _reader(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise BadInput(file=path, field="(file)", got=error.strerror, wanted="a readable file") from None

    return read


def _of_zip(source: Path) -> Iterator[Member]:
    try:
        with zipfile.ZipFile(source) as archive:
            for info in archive.infolist():
                name = _checked(source, info.filename)
                if not info.is_dir():
                    yield name, info.file_size, lambda info=info: archive.read(info)  # type: ignore[misc]
    except _BROKEN as error:
        raise _broken(source, error, "a zip archive") from None


def _of_tar(source: Path) -> Iterator[Member]:
    try:
        passed = 0
        with tarfile.open(source, "r|*", tarinfo=_Header) as archive:
            for info in archive:
                name = _checked(source, info.name)
                passed += info.size  # a member that is not read is unpacked all the same
                if passed > MOST_UNPACKED:
                    raise BadInput(
                        file=source, field="size", got=f"more than {MOST_UNPACKED} bytes", wanted="one engine"
                    )
                if info.isreg():
                    yield name, info.size, lambda info=info: _of_member(archive, info)  # type: ignore[misc]
    except _BROKEN as error:
        raise _broken(source, error, "a tar archive") from None


class _Header(tarfile.TarInfo):
    """A member's header. tarfile takes a broken one behind the first member for the end of the archive; this does not."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except EOFHeaderError:
            raise
        except HeaderError as error:
            raise ReadError(str(error)) from None


def _of_member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(info)
    return b"" if stream is None else stream.read()


def _checked(source: Path, name: str) -> str:
    """A member's name with `./` taken off. BadInput for one that would leave the folder it is unpacked in."""
    plain = name.replace("\\", "/").removeprefix("./")
    if plain.startswith("/") or ".." in plain.split("/"):
        raise BadInput(file=source, field="member", got=name, wanted="a path inside the archive")
    return plain


def _contents(source: Path, read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except _BROKEN as error:
        raise _broken(source, error, "an archive whose members can be read") from None


def _broken(source: Path, error: BaseException, wanted: str) -> BadInput:
    return BadInput(file=source, field="(archive)", got=str(error) or type(error).__name__, wanted=wanted)
