"""A pin that is built from its source: the recipe alone decides, one build serves everybody, and a failure says what to do.

Nothing here touches a network or a compiler: the source's build writes a wheel that tells what it was given.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from harness.errors import BadInput, Unavailable
from oracles import build, doctor, install
from oracles.pins import load_pins

BACKEND = """
import base64, hashlib, json, os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    for step in range(1, 21):
        print(f"[{step}/20] compiling part {step}")
    if FAILS:
        raise SystemExit("part 21 is missing")
    kept = {name: os.environ.get(name) for name in ("CMAKE_ARGS", "CFLAGS", "CC")}
    files = {
        "half_built.py": f"GIVEN = {json.dumps(kept)!r}".encode(),
        "half_built-1.0.0.dist-info/METADATA": b"Metadata-Version: 2.1\\nName: half_built\\nVersion: 1.0.0\\n",
        "half_built-1.0.0.dist-info/WHEEL": b"Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    def digest(data):
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    rows = "".join(f"{name},sha256={digest(data)},{len(data)}\\n" for name, data in files.items())
    files["half_built-1.0.0.dist-info/RECORD"] = (rows + "half_built-1.0.0.dist-info/RECORD,,\\n").encode()
    name = "half_built-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return name
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "half_built"
version = "1.0.0"
"""
PIN = """
name: half_built
engine: fixture
package: half_built
version: 1.0.0
wheels: {{sdist: {digest}}}
build: {{cmake_args: [-DNATIVE=OFF, -DEXTRA=OFF], minutes: 9}}
role: judge
levels: []
ops: [dequantize]
dialects: [ggml]
licence: none
"""


def write_source(links, *, fails=False):
    """The sdist, and its sha256."""
    links.mkdir(exist_ok=True)
    path = links / "half_built-1.0.0.tar.gz"
    files = {
        "pyproject.toml": PROJECT,
        "backend.py": f"FAILS = {fails}\n{BACKEND}",
        "PKG-INFO": "Metadata-Version: 2.1\nName: half_built\nVersion: 1.0.0\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"half_built-1.0.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_pin(folder, digest):
    (folder / "half_built").mkdir(parents=True, exist_ok=True)
    (folder / "half_built" / "pin.yaml").write_text(PIN.format(digest=digest))
    (folder / "half_built" / "requirements.lock").write_text(
        f"half_built==1.0.0 \\\n    --hash=sha256:{digest}\n# the source\n"
    )
    (folder / "half_built" / "build.lock").write_text("# nothing\n")
    (folder / "half_built" / "worker.py").write_text("\n")
    load_pins.cache_clear()
    return load_pins(folder)["half_built"]


@pytest.fixture
def pin(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setattr(build, "compiler", lambda: "cc 1.0")
    return write_pin(tmp_path / "pins", write_source(tmp_path / "links"))


def given(environment):
    """What the build was given, as the installed module tells."""
    site = next(environment.path.glob("lib/*/site-packages"))
    scope = {}
    exec((site / "half_built.py").read_text(), scope)  # noqa: S102  we wrote it
    return json.loads(scope["GIVEN"])


def test_a_users_flags_get_into_the_build_or_each_environment_is_built_anew(pin, monkeypatch):
    monkeypatch.setenv("CFLAGS", "-march=native")
    monkeypatch.setenv("CMAKE_ARGS", "-DNATIVE=ON")
    monkeypatch.setenv("CC", "gcc-1")
    lines = []
    environment = install.ensure(pin, progress=lines.append)
    assert given(environment) == {"CMAKE_ARGS": "-DNATIVE=OFF -DEXTRA=OFF", "CFLAGS": None, "CC": "gcc-1"}
    found = environment.wheels["half_built"]
    assert found["sha256"] == pin.wheels["sdist"]
    assert (found["recipe"], found["compiler"]) == ("-DNATIVE=OFF -DEXTRA=OFF", "cc 1.0")
    assert any("about 9 minutes" in line for line in lines)
    assert "half_built: compiled 20 of 20 files" in lines
    assert install.inspect(pin)[0] is install.State.READY

    (environment.path / install.MARKER).unlink()
    lines.clear()
    again = install.ensure(pin, progress=lines.append)
    assert again.wheels == environment.wheels
    assert not any("compiled" in line for line in lines), "the wheel of the cache was not used"


def test_a_source_with_another_hash_is_built(pin, tmp_path, cache):
    other = write_pin(tmp_path / "pins", "c" * 64)
    with pytest.raises(Unavailable, match=r"(?i)expected sha256 c{64}|hashes"):
        build.wheel(other, tell=print)
    assert not list(cache.glob("wheels/*/*.whl"))


def test_a_build_that_fails_hides_what_the_compiler_said(pin, tmp_path, cache):
    failing = write_pin(tmp_path / "pins", write_source(tmp_path / "links", fails=True))
    with pytest.raises(Unavailable, match=r"build\.log") as caught:
        build.wheel(failing, tell=print)
    (log,) = cache.glob("wheels/*/build.log")
    assert str(log) in str(caught.value)
    assert "part 21 is missing" in log.read_text()


def test_a_missing_compiler_is_a_build_that_fails_minutes_later(pin, monkeypatch):
    monkeypatch.setattr(build, "compiler", lambda: None)
    with pytest.raises(Unavailable, match=r"apt-get install gcc g\+\+"):
        install.ensure(pin)
    wrong = {check.check: check for check in doctor.examine(pin).checks if not check.ok}
    assert list(wrong) == ["environment", "compiler"]
    assert "apt-get" in wrong["compiler"].mend


def test_offline_builds(pin, monkeypatch):
    monkeypatch.setattr(build, "wheel", lambda *_, **__: pytest.fail("it was built"))
    with pytest.raises(Unavailable, match="--offline forbids it"):
        install.ensure(pin, offline=True)


def test_a_compiler_that_is_not_there_is_taken_for_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    assert build.compiler() is None
    for name in ("cc", "c++"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} 7\n")
        (tmp_path / name).chmod(0o755)
    assert build.compiler() == "cc 7; c++ 7"
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.compiler() is None


def test_another_recipe_gives_the_same_environment_or_the_same_evidence(pin):
    pinned = pin.build.model_copy(update={"cmake_args": ("-DNATIVE=ON",)})
    other = pin.model_copy(update={"build": pinned})
    assert install.environment_path(other) != install.environment_path(pin)
    assert other.worker_sha256() != pin.worker_sha256()


def test_a_wheel_that_was_damaged_in_the_cache_is_installed(pin, monkeypatch):
    built = []

    def step(command, **_how):
        if "wheel" in command:
            out = Path(command[command.index("--wheel-dir") + 1])
            out.mkdir()
            (out / "half_built-1.0.0-py3-none-any.whl").write_bytes(b"a wheel")
            built.append(out)

    monkeypatch.setattr(build, "run_step", step)
    first = build.wheel(pin, tell=print)
    assert build.wheel(pin, tell=print) == first
    assert len(built) == 1
    first.path.write_bytes(b"damaged")
    assert build.wheel(pin, tell=print) == first
    assert first.path.read_bytes() == b"a wheel"
    monkeypatch.setattr(build, "compiler", lambda: "cc 2.0")
    assert build.wheel(pin, tell=print).path != first.path
    assert len(built) == 3


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("wheels: {{sdist: {digest}}}", "wheels: {{any: {digest}}}"), ""),
        (("-DNATIVE=OFF", "'-DNATIVE=OFF -DX=1'"), "build.cmake_args.0"),
        (("minutes: 9", "hours: 9"), "build.minutes"),
    ],
)
def test_a_recipe_that_contradicts_itself_is_read(change, field, tmp_path):
    (tmp_path / "half_built").mkdir()
    assert change[0] in PIN
    text = PIN.replace(*change).format(digest="d" * 64)
    (tmp_path / "half_built" / "pin.yaml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load_pins(tmp_path)
    assert caught.value.field == field


def test_the_lock_of_the_environment_still_names_the_source(pin):
    text = (
        "numpy==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n# note\n"
        + pin.lock.read_text()
        + "other==2 \\\n    --hash=sha256:cc\n"
    )
    assert install._without(pin, text) == (
        "numpy==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n# note\n# the source\nother==2 \\\n    --hash=sha256:cc\n"
    )
