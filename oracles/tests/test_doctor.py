"""`harness oracles`: what is wrong is named, with how to mend it, and the exit status says so."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from harness.cli.oracles import command
from harness.paths import REPOSITORY
from oracles import doctor, install
from oracles.install import State
from oracles.pins import load_pins
from oracles.tests.conftest import PINS


@pytest.fixture
def ready(this_interpreter, monkeypatch):
    """Every pin counts as installed, into an environment that is this interpreter."""
    monkeypatch.setattr(install, "inspect", lambda pin: (State.READY, ""))
    monkeypatch.setattr(install, "installed", this_interpreter)
    monkeypatch.setattr(install, "verify_contents", lambda environment: [])


def run(*arguments):
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.stdout


def failed(examination):
    return {check.check: check for check in examination.checks if not check.ok}


def test_the_command_is_imported_without_the_heavy_packages():
    code = "import sys, harness.cli.oracles; print(sorted({'numpy', 'pydantic', 'rich', 'yaml'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert run.stdout.strip() == "[]"


def test_a_wrong_encoding_is_named_op_by_op(ready):
    examination = doctor.examine(load_pins(PINS)["half_right"])
    wrong = failed(examination)
    assert list(wrong) == ["known answers: dequantize"]
    assert "ggml.q4_0" in wrong["known answers: dequantize"].detail
    assert examination.ops["dequantize"] == {"offered": 3, "checked": 3, "failed": ["ggml.q4_0"]}


def test_a_missing_shared_library_is_named_with_its_package(ready):
    wrong = failed(doctor.examine(load_pins(PINS)["no_library"]))
    assert list(wrong) == ["start"]
    assert "apt-get install libgomp1" in wrong["start"].mend


def test_a_changed_file_is_named(ready, monkeypatch):
    monkeypatch.setattr(install, "verify_contents", lambda environment: [f"file {i}" for i in range(5)])
    wrong = failed(doctor.examine(load_pins(PINS)["half_right"]))["files"]
    assert wrong.detail == "file 0; file 1; file 2 and 2 more"
    assert wrong.mend.startswith("rm -r ")


def test_a_wheel_that_the_pin_does_not_name_is_told(ready, this_interpreter, monkeypatch):
    def other(pin):
        environment = this_interpreter(pin)
        environment.wheels[pin.package]["sha256"] = "e" * 64
        return environment

    monkeypatch.setattr(install, "installed", other)
    assert "e" * 64 in failed(doctor.examine(load_pins(PINS)["half_right"]))["wheel"].detail


def test_a_lock_that_lost_a_wheel_is_told(ready, tmp_path):
    shutil.copytree(PINS / "no_library", tmp_path / "no_library")
    (tmp_path / "no_library" / "requirements.lock").write_text("no-library==1.0.0 \\\n")
    assert "b" * 64 in failed(doctor.examine(load_pins(tmp_path)["no_library"]))["lock"].detail


def test_doctor_of_an_empty_cache_is_3_and_names_the_command(cache):
    status, shown = run("doctor")
    assert status == 3
    assert "to mend: harness oracles install llama_cpp.ops" in shown


def test_doctor_as_json_says_the_same(cache):
    status, shown = run("doctor", "formats", "--json")
    report = json.loads(shown)
    assert status == 3
    assert report["ok"] is False
    assert [(oracle["name"], oracle["state"]) for oracle in report["oracles"]] == [("formats", "missing")]


def test_list_shows_every_pin_with_its_state(cache):
    status, shown = run("list")
    assert not status
    assert [line.split()[0] for line in shown.splitlines()] == ["oracle", *sorted(load_pins())]
    assert "missing" in shown
    rows = json.loads(run("list", "--json")[1])["oracles"]
    assert {row["name"] for row in rows} == set(load_pins())
