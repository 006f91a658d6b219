"""The installer: an interrupted or damaged environment is never used, and every failure says what to do.

Nothing here touches a network: the wheel that is installed is made on the spot.
"""

import base64
import hashlib
import json
import shutil
import sys
import threading
import time
import zipfile
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from harness.cli.oracles import install_command
from harness.errors import Unavailable
from oracles import install
from oracles.install import State
from oracles.pins import load_pins
from oracles.tests.conftest import PINS


def record_digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture
def wheel(tmp_path):
    """A wheel of one module, `half_right`, in a folder that pip may find links in."""
    links = tmp_path / "links"
    links.mkdir()
    path = links / "half_right-1.0.0-py3-none-any.whl"
    files = {
        "half_right.py": b"ANSWER = 42\n",
        "half_right-1.0.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: half-right\nVersion: 1.0.0\n",
        "half_right-1.0.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = "".join(f"{name},{record_digest(data)},{len(data)}\n" for name, data in files.items())
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("half_right-1.0.0.dist-info/RECORD", rows + "half_right-1.0.0.dist-info/RECORD,,\n")
    return path


@pytest.fixture
def no_index(wheel, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))


@pytest.fixture
def pin(tmp_path, wheel, cache):
    """The fixture pin, with the sha256 that the wheel really has."""
    folder = tmp_path / "pins"
    shutil.copytree(PINS / "half_right", folder / "half_right")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for name in ("pin.yaml", "requirements.lock"):
        path = folder / "half_right" / name
        path.write_text(path.read_text().replace("a" * 64, digest))
    return load_pins(folder)["half_right"]


class Steps:
    """A stand-in for `install._run`: makes what venv and pip would make, and counts."""

    def __init__(self, monkeypatch, digest, *, fail_at=None, error=None, pause=0.0):
        self.seen = []
        self._fail_at, self._error, self._digest, self._pause = fail_at, error, digest, pause
        monkeypatch.setattr(install, "_run", self)

    def __call__(self, command, pin, what, tell):
        step = next(word for word in ("venv", "install", "uninstall") if word in command)
        self.seen.append(step)
        time.sleep(self._pause)
        if step == self._fail_at:
            raise self._error
        path = install.environment_path(pin)
        if step == "venv":
            (path / "bin").mkdir(parents=True)
            (path / "bin" / "python").symlink_to(sys.executable)
        elif step == "install":
            info = site(path) / "half_right-1.0.0.dist-info"
            info.mkdir(parents=True)
            (site(path) / "half_right.py").write_bytes(b"ANSWER = 42\n")
            (info / "RECORD").write_text("half_right.py,sha256=xyz,12\nhalf_right-1.0.0.dist-info/RECORD,,\n")
            entry = {
                "metadata": {"name": "half-right", "version": "1.0.0"},
                "download_info": {"url": "x", "archive_info": {"hashes": {"sha256": self._digest}}},
            }
            (path / "report.json").write_text(json.dumps({"install": [entry]}))


def site(path):
    return path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def digest_of(pin):
    return pin.wheels["any"]


def test_a_wheel_is_installed_and_its_hash_recorded_without_a_network(pin, no_index):
    lines = []
    environment = install.ensure(pin, progress=lines.append)
    assert environment.wheels == {"half-right": {"version": "1.0.0", "sha256": digest_of(pin)}}
    assert install.inspect(pin) == (State.READY, "")
    assert install.verify_contents(environment) == []
    assert sorted(p.name for p in site(environment.path).glob("*.dist-info")) == [
        "half_right-1.0.0.dist-info"
    ]
    assert not list(site(environment.path).glob("pip*"))
    assert lines[0] == "half_right: creating its environment"
    assert lines[-1] == "half_right: ready (half-right 1.0.0)"
    assert install.ensure(pin, offline=True).path == environment.path
    (site(environment.path) / "half_right.py").write_bytes(b"ANSWER = 43\n")
    assert install.inspect(pin) == (State.READY, "")
    assert install.verify_contents(environment) == ["half_right.py of half-right is not what was installed"]


def test_another_hash_than_the_lock_is_refused_with_pips_words(pin, no_index):
    lock = pin.lock.read_text()
    pin.lock.write_text(lock.replace(digest_of(pin), "c" * 64))
    with pytest.raises(Unavailable) as caught:
        install.ensure(pin)
    assert "installing half-right 1.0.0 failed" in str(caught.value)
    assert "c" * 64 in str(caught.value)
    assert not install.environment_path(pin).exists()


def test_a_failed_download_is_unavailable_with_the_end_of_pips_output(pin, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(Unavailable, match="No matching distribution found for half-right==1"):
        install.ensure(pin)
    assert install.inspect(pin)[0] is State.MISSING


def test_offline_names_the_command_to_run(pin, monkeypatch):
    steps = Steps(monkeypatch, digest_of(pin))
    with pytest.raises(Unavailable, match="run: harness oracles install half_right"):
        install.ensure(pin, offline=True)
    assert steps.seen == []
    assert not install.environment_path(pin).parent.exists()


@pytest.mark.parametrize(
    "marker",
    [None, "", "{", "[]", '{"schema": 0, "wheels": {}}', '{"schema": 1}', '{"schema": 1, "wheels": [1]}'],
)
def test_an_interrupted_installation_is_wiped_and_redone(pin, monkeypatch, marker):
    path = install.environment_path(pin)
    path.mkdir(parents=True)
    (path / "leftover").touch()
    if marker is not None:
        (path / install.MARKER).write_text(marker)
    assert install.inspect(pin)[0] is State.INTERRUPTED
    steps, lines = Steps(monkeypatch, digest_of(pin)), []
    install.ensure(pin, progress=lines.append)
    assert steps.seen == ["venv", "install", "uninstall"]
    assert not (path / "leftover").exists()
    assert lines[0] == "half_right: removing an interrupted or damaged installation"
    assert install.inspect(pin)[0] is State.READY


def cut_a_file(path):
    (site(path) / "half_right.py").write_bytes(b"ANSWER")


def remove_a_file(path):
    (site(path) / "half_right.py").unlink()


def remove_the_package(path):
    shutil.rmtree(site(path) / "half_right-1.0.0.dist-info")


def remove_the_interpreter(path):
    (path / "bin" / "python").unlink()
    (path / "bin" / "python").symlink_to("/nonexistent/python")


@pytest.mark.parametrize("damage", [cut_a_file, remove_a_file, remove_the_package, remove_the_interpreter])
def test_a_damaged_installation_is_wiped_and_redone(pin, monkeypatch, damage):
    steps = Steps(monkeypatch, digest_of(pin))
    environment = install.ensure(pin)
    damage(environment.path)
    state, why = install.inspect(pin)
    assert state is State.DAMAGED
    assert why
    install.ensure(pin)
    assert steps.seen == ["venv", "install", "uninstall"] * 2
    assert install.inspect(pin)[0] is State.READY


@pytest.mark.parametrize("step", ["venv", "install", "uninstall"])
@pytest.mark.parametrize(
    "error", [Unavailable("no space left"), KeyboardInterrupt()], ids=["fails", "interrupted"]
)
def test_a_step_that_does_not_finish_leaves_nothing_that_looks_ready(pin, monkeypatch, step, error):
    Steps(monkeypatch, digest_of(pin), fail_at=step, error=error)
    with pytest.raises(type(error)):
        install.ensure(pin)
    assert install.inspect(pin)[0] is State.MISSING


def test_a_lock_that_installs_another_wheel_than_the_pin_names_is_refused(pin, monkeypatch):
    Steps(monkeypatch, "d" * 64)
    with pytest.raises(Unavailable, match=r"none that pin\.yaml names"):
        install.ensure(pin)
    assert install.inspect(pin)[0] is State.MISSING


def test_two_installers_at_a_time_install_once(pin, monkeypatch):
    steps, lines, got = Steps(monkeypatch, digest_of(pin), pause=0.2), [], []
    threads = [
        threading.Thread(target=lambda: got.append(install.ensure(pin, progress=lines.append)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps.seen == ["venv", "install", "uninstall"]
    assert len({environment.path for environment in got}) == 1
    assert any("waiting for another process" in line for line in lines)


def test_a_cache_that_cannot_be_written_is_unavailable_and_says_how_to_move_it(pin, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    with pytest.raises(Unavailable, match="set HARNESS_CACHE to a folder that can be written"):
        install.ensure(pin)


def test_a_disk_that_is_full_at_the_last_moment_leaves_no_marker(pin, monkeypatch):
    Steps(monkeypatch, digest_of(pin))

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(install, "_write_marker", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        install.ensure(pin)
    assert install.inspect(pin)[0] is State.MISSING


def test_another_lock_is_another_environment(pin):
    before = install.environment_path(pin)
    pin.lock.write_text(pin.lock.read_text() + "# another\n")
    assert install.environment_path(pin) != before


def test_an_oracle_that_cannot_be_installed_keeps_the_next_from_it(monkeypatch, tmp_path):
    tried = []

    def ensure(pin, *, offline, progress):
        tried.append(pin.name)
        if pin.name == "formats":
            raise Unavailable("oracle formats: no network")
        return SimpleNamespace(path=tmp_path)

    monkeypatch.setattr(install, "ensure", ensure)
    monkeypatch.setattr(install, "installed", lambda pin: None)
    ran = CliRunner().invoke(install_command, ["formats", "llama_cpp.ops"])
    assert tried == ["formats", "llama_cpp.ops"]
    assert "llama_cpp.ops  xllamacpp" in ran.stdout
    assert isinstance(ran.exception, Unavailable)
    assert str(ran.exception) == "oracle formats: no network"
