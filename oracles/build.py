"""Wheels that are built here from a pinned sdist: once for each recipe, compiler and platform, and kept in the cache.

    <cache>/wheels/<pin>-<key>/         key: sdist, recipe, locked build tools, compiler, platform
        <package>-….whl
        built.json                      written last: the wheel's sha256 and what it was built with
        build.log                       what the build said, also of one that failed

pip's own cache is left out: it may hold a wheel of the same name that was built with other flags.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from harness.errors import Unavailable
from harness.paths import cache_root
from harness.text import printable
from oracles.pins import SDIST, Pin
from oracles.pip import Progress, base_python, run_step

MARKER = "built.json"
LOG = "build.log"
# Whoever sets these means other builds: the recipe alone decides about flags.
DROPPED = (
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "ASFLAGS",
    "CMAKE_ARGS",
    "SKBUILD_CMAKE_ARGS",
    "SKBUILD_CMAKE_DEFINE",
)
_COMPILED = re.compile(r"^\[(\d+)/(\d+)\] ")
_TOLD_STEPS = 10

NO_COMPILER = (
    "a C and a C++ compiler are needed: apt-get install gcc g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), "
    "xcode-select --install (macOS), or name them in CC and CXX"
)


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel that was built here. `compiler` is what it said about itself."""

    path: Path
    sha256: str
    compiler: str


def compiler() -> str | None:
    """The C and the C++ compiler that a build would use, as they describe themselves; None when one is missing."""
    found = []
    for variable, names in (("CC", ("cc", "gcc", "clang")), ("CXX", ("c++", "g++", "clang++"))):
        wanted = os.environ.get(variable)
        path = next(filter(None, map(shutil.which, [wanted] if wanted else names)), None)
        if path is None:
            return None
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if said.returncode:
            return None
        found.append(said.stdout.partition("\n")[0].strip())
    return "; ".join(dict.fromkeys(found))


def recipe(pin: Pin) -> str:
    """What the pin says about its build, in words: part of evidence and of every key."""
    assert pin.build is not None
    return " ".join(pin.build.cmake_args)


def recipe_key(pin: Pin) -> bytes:
    """A digest of the recipe: sdist, flags, build tools."""
    assert pin.build is not None
    parts = (pin.wheels[SDIST], *pin.build.cmake_args, pin.build_lock.read_text("utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).digest()


def wheel(pin: Pin, *, tell: Progress) -> BuiltWheel:
    """The pin's wheel, built first if the cache does not hold it. Raises Unavailable with the reason and what to do."""
    assert pin.build is not None
    with_compiler = compiler()
    if with_compiler is None:
        raise Unavailable(f"oracle {pin.name} is built from its source: {NO_COMPILER}")
    parts = (
        recipe_key(pin),
        with_compiler.encode(),
        sysconfig.get_platform().encode(),
        platform.machine().encode(),
    )
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    folder = cache_root() / "wheels" / f"{pin.name}-{key}"
    if found := _kept(folder):
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        # Another process may have built it while we waited.
        return _kept(folder) or _build(pin, folder, with_compiler, tell)


def _kept(folder: Path) -> BuiltWheel | None:
    """The wheel in `folder`, if it is the one that was built there."""
    try:
        marker = json.loads((folder / MARKER).read_text("utf-8"))
        path = folder / marker["wheel"]
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest == marker["sha256"]:
            return BuiltWheel(path, digest, marker["compiler"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _build(pin: Pin, folder: Path, with_compiler: str, tell: Progress) -> BuiltWheel:
    assert pin.build is not None
    minutes = pin.build.minutes
    tell(
        f"{pin.name}: building {pin.package} {pin.version} from source, once: about {minutes} minutes on 2 cores"
    )
    with (
        tempfile.TemporaryDirectory(prefix=".build-", dir=folder.parent) as scratch,
        (folder / LOG).open("w") as log,
    ):
        tools, out = Path(scratch) / "tools", Path(scratch) / "out"
        source = Path(scratch) / "source.txt"
        source.write_text(f"{pin.package}=={pin.version} --hash=sha256:{pin.wheels[SDIST]}\n", "ascii")
        run_step([base_python(), "-I", "-m", "venv", str(tools)], what=_what(pin, "preparing"), tell=tell)
        pip = [str(tools / "bin" / "python"), "-I", "-m", "pip"]
        quiet = [
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
            "--no-deps",
            "--require-hashes",
        ]
        run_step(
            [*pip, "install", *quiet, "--only-binary", ":all:", "--requirement", str(pin.build_lock)],
            what=_what(pin, "installing build tools"),
            tell=lambda line: tell(f"{pin.name}: {line}"),
        )
        run_step(
            [
                *(*pip, "wheel", *quiet, "--verbose", "--no-cache-dir", "--no-build-isolation"),
                *("--no-binary", ":all:", "--wheel-dir", str(out), "--requirement", str(source)),
            ],
            what=_what(pin, f"building (all that it said: {printable(str(folder / LOG))})"),
            tell=_steps(pin, tell),
            show=lambda line: bool(_COMPILED.match(line)),
            env=_environment(pin, tools / "bin"),
            log=log,
        )
        (built,) = out.glob("*.whl")
        built.replace(folder / built.name)
    path = folder / built.name
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    marker = {"wheel": path.name, "sha256": digest, "compiler": with_compiler, "recipe": recipe(pin)}
    temporary = folder / f"{MARKER}.tmp"
    temporary.write_text(json.dumps(marker, indent=1), "utf-8")
    temporary.replace(folder / MARKER)
    return BuiltWheel(path, digest, with_compiler)


def _environment(pin: Pin, tools: Path) -> dict[str, str]:
    """The user's variables without those that would change the build, and the recipe's own."""
    assert pin.build is not None
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    kept.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    return {
        **kept,
        "PATH": os.pathsep.join([str(tools), os.environ.get("PATH", "")]),
        "CMAKE_ARGS": recipe(pin),
    }


def _steps(pin: Pin, tell: Progress) -> Progress:
    """Passes on ten of the lines `[done/total] …` of a build."""
    told: set[int] = set()

    def step(line: str) -> None:
        if (found := _COMPILED.match(line)) is None:
            return
        done, total = (int(number) for number in found.groups())
        tenth = done * _TOLD_STEPS // max(total, 1)
        # A build that holds others counts each from 1: only a long one is worth a line.
        if total >= _TOLD_STEPS and tenth not in told:
            told.add(tenth)
            tell(f"{pin.name}: compiled {done} of {total} files")

    return step


def _what(pin: Pin, step: str) -> str:
    return f"oracle {pin.name}: {step}"
