"""One environment per pin, made from its hash-locked requirements on first use and kept in the user's cache.

    <cache>/oracles/<pin>-<key>/            key: lock file, Python major.minor and implementation, platform, recipe
        bin/python …                        a virtual environment that holds the locked packages alone
        ready.json                          written last: what was installed, with the sha256 of every wheel

An environment without the marker was interrupted and one whose files have other sizes than recorded was damaged;
both are wiped and made again. A lock file beside it keeps two installers apart.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness.errors import Unavailable
from harness.paths import cache_root
from harness.text import printable
from oracles import build
from oracles.pins import SDIST, Pin
from oracles.pip import Progress, base_python, run_step

MARKER = "ready.json"
MARKER_SCHEMA = 1
# What pip and venv bring along; a worker's environment keeps the locked packages alone.
TOOLS = ("pip", "setuptools")


class State(StrEnum):
    """What is at an environment's place."""

    READY = "ready"
    MISSING = "missing"
    INTERRUPTED = "interrupted"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Environment:
    """A ready environment: its interpreter and what was installed into it."""

    pin: Pin
    key: str
    path: Path
    wheels: dict[str, dict[str, str]]
    """package -> {"version", "sha256"} of the wheel that pip installed.

    For a package that was built here `sha256` is that of its sdist, and "built_sha256", "recipe" and "compiler" are there.
    """

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"


def environment_key(pin: Pin) -> str:
    """16 hex digits of what an environment depends on: the lock file, the Python, the platform, the recipe of a build."""
    python = f"{sys.implementation.name}{sys.version_info.major}.{sys.version_info.minor}"
    parts = [pin.lock.read_bytes(), python.encode(), sysconfig.get_platform().encode()]
    if pin.build is not None:
        parts.append(build.recipe_key(pin))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def environment_path(pin: Pin) -> Path:
    return cache_root() / "oracles" / f"{pin.name}-{environment_key(pin)}"


def inspect(pin: Pin) -> tuple[State, str]:
    """What is at the pin's place, and why it is not ready; reads names and sizes, no contents."""
    path = environment_path(pin)
    if not path.exists():
        return State.MISSING, "not installed"
    marker = _read_marker(path)
    if marker is None:
        return State.INTERRUPTED, f"{printable(str(path))} has no valid {MARKER}"
    if not os.access(path / "bin" / "python", os.X_OK):
        return State.DAMAGED, f"its interpreter {printable(str(path / 'bin' / 'python'))} does not run"
    for name, wheel in marker["wheels"].items():
        for reason in _differences(path, name, wheel["version"], contents=False):
            return State.DAMAGED, reason
    return State.READY, ""


def verify_contents(environment: Environment) -> list[str]:
    """Every file of every installed wheel that differs from the sha256 that its wheel recorded for it."""
    return [
        reason
        for name, wheel in environment.wheels.items()
        for reason in _differences(environment.path, name, wheel["version"], contents=True)
    ]


def installed(pin: Pin) -> Environment | None:
    """The pin's environment if it is ready."""
    if inspect(pin)[0] is not State.READY:
        return None
    path = environment_path(pin)
    marker = _read_marker(path)
    return Environment(pin, environment_key(pin), path, marker["wheels"]) if marker else None


def ensure(pin: Pin, *, offline: bool = False, progress: Progress | None = None) -> Environment:
    """The pin's environment, made first if it is not there. Raises Unavailable with the reason and what to do.

    `progress` gets one line at a time; with `offline` nothing is downloaded.
    """
    if found := installed(pin):
        return found
    tell = progress or (lambda _line: None)
    path = environment_path(pin)
    if offline:
        _, why = inspect(pin)
        raise Unavailable(
            f"oracle {pin.name}: {why}, and --offline forbids it; run: harness oracles install {pin.name}"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path, tell):
            # Another process may have made it while we waited.
            if found := installed(pin):
                return found
            return _make(pin, path, tell)
    except OSError as error:
        raise Unavailable(
            f"oracle {pin.name} cannot be installed below {printable(str(path.parent))}: "
            f"{error.strerror or error} (set HARNESS_CACHE to a folder that can be written)"
        ) from None


@contextlib.contextmanager
def _lock(path: Path, tell: Progress) -> Iterator[None]:
    lock = FileLock(path.parent / f".{path.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        tell(f"{path.name}: waiting for another process that is installing it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _make(pin: Pin, path: Path, tell: Progress) -> Environment:
    if path.exists():
        tell(f"{pin.name}: removing an interrupted or damaged installation")
        shutil.rmtree(path)
    built = None if pin.build is None else build.wheel(pin, tell=tell)
    try:
        tell(f"{pin.name}: creating its environment")
        _run([base_python(), "-I", "-m", "venv", str(path)], pin, "its virtual environment", tell)
        wheels = _install(pin, path, built, tell)
        _check_against_pin(pin, wheels)
        _run([_pip(path)[0], "-I", "-m", "pip", "uninstall", "--yes", *TOOLS], pin, "cleaning up", tell)
        _write_marker(path, {"schema": MARKER_SCHEMA, "pin": pin.name, "wheels": wheels})
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    tell(f"{pin.name}: ready ({pin.package} {pin.version})")
    return Environment(pin, environment_key(pin), path, wheels)


def _install(
    pin: Pin, path: Path, built: build.BuiltWheel | None, tell: Progress
) -> dict[str, dict[str, str]]:
    if built is None:
        return _install_locked(pin, pin.lock, path, tell)
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as requirements:
        requirements.write(_without(pin, pin.lock.read_text("utf-8")))
        requirements.write(f"{pin.package} @ {built.path.as_uri()} --hash=sha256:{built.sha256}\n")
        requirements.flush()
        wheels = _install_locked(pin, Path(requirements.name), path, tell)
    if wheels.get(pin.package, {}).get("sha256") == built.sha256:
        made = {"built_sha256": built.sha256, "recipe": build.recipe(pin), "compiler": built.compiler}
        wheels[pin.package] |= {"sha256": pin.wheels[SDIST], **made}
    return wheels


def _without(pin: Pin, lock: str) -> str:
    """The lock less the entry of the package, which was built from what it names."""
    return re.sub(rf"(?m)^{re.escape(pin.package)}==.*\\\n(?: .*\n)*", "", lock)


def _install_locked(pin: Pin, lock: Path, path: Path, tell: Progress) -> dict[str, dict[str, str]]:
    report = path / "report.json"
    command = [
        *_pip(path),
        *("install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:", "--report", str(report)),
        *("--requirement", str(lock)),
    ]
    tell(f"{pin.name}: downloading {pin.package} {pin.version} and what it needs")
    _run(command, pin, f"{pin.package} {pin.version}", tell)
    try:
        installs = json.loads(report.read_text("utf-8"))["install"]
        report.unlink()
        return {entry["metadata"]["name"]: _provenance(entry) for entry in installs}
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(
            f"oracle {pin.name}: pip's report cannot be read ({type(error).__name__})"
        ) from None


def _provenance(entry: dict[str, Any]) -> dict[str, str]:
    """Of pip's report on one package, what evidence needs: no addresses, no paths."""
    archive = entry["download_info"].get("archive_info", {})
    return {"version": entry["metadata"]["version"], "sha256": archive.get("hashes", {}).get("sha256", "")}


def _check_against_pin(pin: Pin, wheels: dict[str, dict[str, str]]) -> None:
    got = wheels.get(pin.package, {})
    if got.get("version") != pin.version or got.get("sha256") not in pin.wheels.values():
        raise Unavailable(
            f"oracle {pin.name}: its lock file installed {pin.package} {got.get('version')} with the sha256 "
            f"{got.get('sha256')}, which is none that pin.yaml names for {pin.version}"
        )


def _pip(path: Path) -> list[str]:
    return [str(path / "bin" / "python"), "-I", "-m", "pip"]


def _run(command: list[str], pin: Pin, what: str, tell: Progress) -> None:
    """Run one step, passing on what pip downloads. Raises Unavailable with the end of its output when it fails."""
    run_step(
        command, what=f"oracle {pin.name}: installing {what}", tell=lambda line: tell(f"{pin.name}: {line}")
    )


def _differences(path: Path, name: str, version: str, *, contents: bool) -> Iterator[str]:
    """What differs from the RECORD of one installed wheel: sizes, or the sha256 of every file."""
    site = path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    wanted = f"{name}-{version}.dist-info".lower().replace("-", "_")
    records = [
        p for p in site.glob("*.dist-info/RECORD") if p.parent.name.lower().replace("-", "_") == wanted
    ]
    if not records:
        yield f"{printable(name)} {printable(version)} is not installed in it"
        return
    with records[0].open(newline="", encoding="utf-8") as rows:
        for file, digest, size in csv.reader(rows):
            target = site / file
            # Python may write its byte code anew; what it is made from is checked.
            if not digest or not size or file.endswith(".pyc"):
                continue
            try:
                if target.stat().st_size != int(size) or (contents and _record_digest(target) != digest):
                    yield f"{printable(file)} of {printable(name)} is not what was installed"
            except OSError:
                yield f"{printable(file)} of {printable(name)} is missing"


def _record_digest(path: Path) -> str:
    """The digest of a file as a wheel's RECORD writes it."""
    import base64

    with path.open("rb") as file:
        raw = hashlib.file_digest(file, "sha256").digest()
    return f"sha256={base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"


def _read_marker(path: Path) -> dict[str, Any] | None:
    try:
        marker = json.loads((path / MARKER).read_text("utf-8"))
        if marker["schema"] == MARKER_SCHEMA and all(
            isinstance(wheel["version"], str) for wheel in marker["wheels"].values()
        ):
            return dict(marker)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _write_marker(path: Path, marker: dict[str, Any]) -> None:
    temporary = path / f"{MARKER}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(marker, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path / MARKER)
