"""The code hash of a case: one digest of everything in the tree that decides what the case computes and how it is judged.

It is made from files alone, without importing or running anything, so that evidence can be called outdated on any
machine. What it covers:

- every file of the unit, less those of other backends; the tables that the unit names; for a product also the unit of
  its activation encoding;
- the family's definition files, and every `conftest.py` in a folder above them: it can change how they run;
- whatever these import, directly or not, inside `FOLLOWED` (Python by its syntax tree, C by `#include "…"`);
- the comparator, and what makes a verdict and a line of evidence out of it (`JUDGING`);
- data that these read at run time (`DATA`);
- op, encoding, backend and the text of the bound.

The engine is not in it: evidence carries its pin, and another pin makes the evidence stale by itself.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

from harness.errors import BadInput
from harness.evidence.case import Case
from harness.paths import REPOSITORY

FOLLOWED = ("kernels", "cases", "harness.containers", "harness.comparison", "harness.guard")
"""Packages whose modules count when something that counts imports them. Of the rest of `harness`, what judges is in
`JUDGING`; `oracles` is covered by the pin."""

COMPARATOR = ("harness/comparison/accumulate.py", "harness/comparison/bounds.py")

JUDGING = (
    "harness/guard.py",
    *(f"harness/plugin/{name}.py" for name in ("evidence", "judging", "opinions", "outcome", "verdict")),
)
"""What turns a comparison into a verdict. A judge that was broken for one run would leave no other trace."""

DATA = {"harness/containers/ggml_types.py": ("harness/containers/ggml_types.yaml",)}
"""Module -> the files that it reads, which no import names."""

BACKEND_FILES = {
    "triton": ("triton*.py",),
    "cuda": ("*.cu", "*.cuh"),
    "metal": ("*.metal",),
}
"""Files of a unit that belong to one backend. Everything else in its folder belongs to all of them: `reference.py` is
what every other backend is written beside."""

WITHOUT_ACTIVATION = frozenset({"dequantize", "quantize", "get_rows", "set_rows", "cpy", "repack"})
"""Ops that take no second operand, so that the unit's activation encoding plays no part."""

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*(?:include|import)[ \t]+"([^"\n]+)"', re.MULTILINE)
_C_SUFFIXES = {".cu", ".cuh", ".metal", ".h", ".hpp", ".c", ".cpp"}


def code_hash(case: Case, root: Path = REPOSITORY) -> str:
    """The code hash of `case` in the tree at `root`, 16 hexadecimal digits. See `code_hash_of`."""
    return code_hash_of(
        op=case.op,
        encoding=case.encoding,
        backend=case.backend,
        bound=case.bound,
        files=relative_files(case.files),
        root=root,
    )


@dataclass(frozen=True)
class Read:
    """What the files of one tree hold, by path: for many code hashes of a tree that does not change meanwhile."""

    named: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)


def code_hash_of(
    *,
    op: str,
    encoding: str | None,
    backend: str,
    bound: str,
    files: Iterable[str],
    root: Path = REPOSITORY,
    read: Read | None = None,
) -> str:
    """16 hexadecimal digits over the words given and over the path and bytes of every file that counts.

    `files` are the family's definition files, relative to `root`. With `read` each file is read once for all hashes that
    it is given to. Raises BadInput naming a definition file that is not there.
    """
    read = Read() if read is None else read
    digest = hashlib.sha256(repr((op, encoding, backend, bound)).encode())
    for path in relevant_files(op, encoding, backend, tuple(files), root, read):
        if path not in read.sha256:
            read.sha256[path] = _content(root / path).sha256
        digest.update(f"{path}\0{read.sha256[path]}\n".encode())
    return digest.hexdigest()[:16]


def relevant_files(
    op: str,
    encoding: str | None,
    backend: str,
    files: tuple[str, ...],
    root: Path = REPOSITORY,
    read: Read | None = None,
) -> tuple[str, ...]:
    """The files that the code hash covers, relative to `root`, sorted."""
    read = Read() if read is None else read
    start = {*files, *(name for name in (*COMPARATOR, *JUDGING) if (root / name).is_file())}
    start |= {name for file in files for name in _conftests(file, root)}
    if encoding is not None:
        start |= set(_unit_files(op, encoding, backend, root))
    for name in files:
        if not (root / name).is_file():
            raise BadInput(
                file=root / name, field="(file)", got="nothing", wanted="a file that defines a family"
            )
    seen: set[str] = set()
    waiting = sorted(start)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            if name not in read.named:
                read.named[name] = tuple(_named_in(name, root))
            waiting.extend(read.named[name])
    return tuple(sorted(seen))


def _conftests(file: str, root: Path) -> Iterator[str]:
    """The `conftest.py` files that pytest loads for `file`: of its folder and of those above it, up to `root`."""
    for folder in PurePosixPath(file).parents:
        name = (folder / "conftest.py").as_posix()
        if (root / name).is_file():
            yield name


def relative_files(files: Iterable[Path]) -> tuple[str, ...]:
    """Definition files as the required list names them: relative to the repository, with `/`, sorted."""
    return tuple(sorted({_relative(path) for path in files}))


def _relative(path: Path) -> str:
    absolute = path if path.is_absolute() else REPOSITORY / path
    try:
        return absolute.resolve().relative_to(REPOSITORY).as_posix()
    except ValueError:
        raise BadInput(
            file=path, field="(path)", got="a file elsewhere", wanted=f"a file below {REPOSITORY}"
        ) from None


def _unit_files(op: str, encoding: str, backend: str, root: Path) -> Iterator[str]:
    dialect, _, name = encoding.partition(".")
    folder = root / "kernels" / dialect / name
    if not (folder / "unit.yaml").is_file():
        return
    mine = BACKEND_FILES.get(backend.partition("@")[0], ())
    others = {pattern for patterns in BACKEND_FILES.values() for pattern in patterns} - set(mine)
    for path in folder.iterdir():
        hidden = path.name.startswith(".") or path.suffix == ".pyc" or not path.is_file()
        if not hidden and not any(path.match(pattern) for pattern in others):
            yield path.relative_to(root).as_posix()
    tables, activation = _unit_references(folder / "unit.yaml")
    for table in tables:
        path = folder.parent / "tables" / f"{table}.npy"
        if path.is_file():
            yield path.relative_to(root).as_posix()
    if activation is not None and activation != encoding and op not in WITHOUT_ACTIVATION:
        yield from _unit_files(op, activation, backend, root)


def _unit_references(file: Path) -> tuple[tuple[str, ...], str | None]:
    """The tables and the activation encoding that a unit names. A unit that cannot be read names nothing: its bytes
    have changed, which is all that the hash has to show."""
    content = _content(file)
    return _references_of(file, content.sha256)


@cache
def _references_of(file: Path, _sha256: str) -> tuple[tuple[str, ...], str | None]:
    from kernels.units import read_unit

    try:
        unit = read_unit(file)
    except BadInput:
        return (), None
    return tuple(unit.tables.values()), unit.activation


class _Content:
    """Digest of a file's bytes, and the modules or includes that it names."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.imports: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
        self.includes: tuple[str, ...] = ()
        if path.suffix == ".py":
            self.imports = _imports(data)
        elif path.suffix in _C_SUFFIXES:
            self.includes = tuple(found.decode("utf-8", "replace") for found in _INCLUDE.findall(data))


def _content(path: Path) -> _Content:
    status = path.stat()
    return _content_at(path, status.st_mtime_ns, status.st_size)


@cache
def _content_at(path: Path, _mtime_ns: int, _size: int) -> _Content:
    return _Content(path)


def _imports(data: bytes) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """(level, module, names) of every import statement, wherever it stands. Nothing for a file that does not parse."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return ()
    found: list[tuple[int, str, tuple[str, ...]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
    return tuple(found)


def _named_in(name: str, root: Path) -> Iterator[str]:
    """Files below `root` that the file `name` imports or includes, where they belong to `FOLLOWED`, or reads (`DATA`)."""
    yield from (data for data in DATA.get(name, ()) if (root / data).is_file())
    content = _content(root / name)
    for level, module, names in content.imports:
        if level:
            parents = name.split("/")[:-level]
            module = ".".join([*parents, module] if module else parents)
        for candidate in (module, *(f"{module}.{item}" for item in names)):
            yield from _module_files(candidate, root)
    for include in content.includes:
        for base in ((root / name).parent, root / "kernels", root):
            path = Path(os.path.normpath(base / include))
            if path.is_relative_to(root) and path.is_file():
                yield path.relative_to(root).as_posix()
                break


def _module_files(module: str, root: Path) -> Iterator[str]:
    """The file of a module and the `__init__.py` files that importing it runs; nothing for a name inside a module."""
    parts = module.split(".")
    found = [f"{'/'.join(parts)}.py"]
    found += [f"{'/'.join(parts[:length])}/__init__.py" for length in range(1, len(parts) + 1)]
    for name in found:
        package = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if _followed(package) and (root / name).is_file():
            yield name


def _followed(module: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in FOLLOWED)
