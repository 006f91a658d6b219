"""What is wrong with an oracle, and how to mend it: each check by itself, nothing installed, nothing changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.paths import KERNELS
from oracles import build, install, known
from oracles.install import Environment, State
from oracles.pins import Pin
from oracles.pool import open_oracle

SHOWN_FILES = 3
MISSING_LIBRARY = re.compile(r"(lib[\w.+-]+\.(?:so|dylib)[\w.]*): cannot open shared object file")
# The packages of Debian and its relatives that hold what a prebuilt engine links against.
LIBRARY_PACKAGES = {"libgomp.so.1": "libgomp1", "libstdc++.so.6": "libstdc++6", "libgcc_s.so.1": "libgcc-s1"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `mend` is a command or an instruction, empty when all is well."""

    check: str
    ok: bool
    detail: str
    mend: str = ""


@dataclass(frozen=True)
class Examination:
    """All checks of one pin. `ops` counts, by op, the encodings offered, checked by known answers, and failed."""

    pin: Pin
    state: State
    checks: tuple[Check, ...]
    ops: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.pin.name,
            "package": self.pin.package,
            "version": self.pin.version,
            "state": str(self.state),
            "path": str(install.environment_path(self.pin)),
            "ok": self.ok,
            "checks": [asdict(check) for check in self.checks],
            "ops": self.ops,
        }


def examine(pin: Pin, known_folder: Path = KERNELS) -> Examination:
    """Look at the pin's lock, environment, files, start and known answers; stops where the next check needs the last."""
    checks = [_lock(pin)]
    state, why = install.inspect(pin)
    reinstall = f"harness oracles install {pin.name}"
    if state is not State.READY:
        checks.append(Check("environment", False, why, reinstall))
        if pin.build is not None:
            checks.append(_compiler(pin))
        return Examination(pin, state, tuple(checks))
    environment = install.installed(pin)
    assert environment is not None
    checks.append(Check("environment", True, str(environment.path)))
    checks += [_wheel(pin, environment), _contents(environment)]
    started, ops = _start(pin, environment, known_folder)
    return Examination(pin, state, (*checks, *started), ops)


def _lock(pin: Pin) -> Check:
    """The lock file must name the package, the version and every wheel that pin.yaml names."""
    text = pin.lock.read_text("utf-8")
    wanted = [
        f"{pin.package}=={pin.version} ",
        *(f"--hash=sha256:{digest}" for digest in pin.wheels.values()),
    ]
    missing = [part.strip() for part in wanted if part not in text]
    archives = "wheels" if pin.build is None else "wheels and one source"
    detail = (
        f"no {', '.join(missing)} in it"
        if missing
        else f"{pin.package} {pin.version}, {text.count('--hash=') - (pin.build is not None)} {archives}"
    )
    return Check("lock", not missing, detail, f"make {pin.lock} and pin.yaml agree" if missing else "")


def _compiler(pin: Pin) -> Check:
    """Whether the wheel that is not there could be built."""
    assert pin.build is not None
    found = build.compiler()
    if found is None:
        return Check("compiler", False, "none: this oracle is built from its source", build.NO_COMPILER)
    return Check("compiler", True, f"{found}; the build takes about {pin.build.minutes} minutes on 2 cores")


def _wheel(pin: Pin, environment: Environment) -> Check:
    wheel = environment.wheels.get(pin.package, {})
    got = wheel.get("sha256", "")
    if got in pin.wheels.values():
        source = (
            ""
            if pin.build is None
            else f" of its source, built with {wheel.get('recipe')} by {wheel.get('compiler')}"
        )
        return Check("wheel", True, f"sha256 {got}{source}")
    return Check("wheel", False, f"sha256 {got or 'unknown'} is none that pin.yaml names", _wipe(environment))


def _contents(environment: Environment) -> Check:
    wrong = install.verify_contents(environment)
    if not wrong:
        return Check("files", True, f"all files of {len(environment.wheels)} packages are as installed")
    more = f" and {len(wrong) - SHOWN_FILES} more" if len(wrong) > SHOWN_FILES else ""
    return Check("files", False, "; ".join(wrong[:SHOWN_FILES]) + more, _wipe(environment))


def _wipe(environment: Environment) -> str:
    return f"rm -r {environment.path} && harness oracles install {environment.pin.name}"


def _start(
    pin: Pin, environment: Environment, known_folder: Path
) -> tuple[list[Check], dict[str, dict[str, Any]]]:
    try:
        oracle = open_oracle(pin, environment, known_folder=known_folder, trust_marks=False)
    except HarnessError as error:
        return [Check("start", False, str(error), _mend_start(str(error), environment))], {}
    try:
        found = f"{oracle.version}, process answers"
        checks = [Check("start", True, found)]
        if oracle.version != pin.version:
            detail = f"the worker reports {oracle.version}, pin.yaml says {pin.version}"
            checks.append(Check("version", False, detail, _wipe(environment)))
        ops: dict[str, dict[str, Any]] = {}
        for op, encodings in oracle.ops.items():
            checked = [e for e in encodings if oracle.has_known_answers(op, e)]
            failed = [e for e in checked if not oracle.supports(op, e)]
            ops[op] = {"offered": len(encodings), "checked": len(checked), "failed": failed}
        checks += _known(oracle.failures.values(), ops)
        return checks, ops
    finally:
        oracle.close()


def _known(failures: Any, ops: dict[str, dict[str, Any]]) -> Iterator[Check]:
    by_op: dict[str, list[known.Failure]] = {}
    for failure in failures:
        by_op.setdefault(failure.op, []).append(failure)
    for op, counts in ops.items():
        if wrong := by_op.get(op):
            detail = "; ".join(str(failure) for failure in wrong)
            yield Check(
                f"known answers: {op}", False, detail, "this build is wrong there: these are not offered"
            )
        elif counts["checked"]:
            detail = f"{counts['checked']} of {counts['offered']} encodings have known answers, all hold"
            yield Check(f"known answers: {op}", True, detail)


def _mend_start(message: str, environment: Environment) -> str:
    if missing := MISSING_LIBRARY.search(message):
        library = missing[1]
        package = LIBRARY_PACKAGES.get(library)
        where = (
            f"apt-get install {package} (Debian, Ubuntu)" if package else "install the package that holds it"
        )
        return f"the shared library {library} is missing on this machine: {where}"
    return _wipe(environment)
