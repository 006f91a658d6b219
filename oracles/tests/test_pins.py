"""Pins: data with a schema, and the order in which they judge."""

import re

import pytest

from harness.errors import BadInput, UsageProblem
from harness.paths import ORACLES
from oracles.pins import load_pins, pin, pins_for
from oracles.tests.conftest import PINS


def test_an_engine_is_asked_before_the_second_opinion():
    assert pins_for("llama_cpp", "tensors") == ("llama_cpp.ops", "formats")
    assert pins_for("llama_cpp", "recognize") == ("llama_cpp.ops", "formats")


def test_the_second_opinion_can_judge_alone():
    assert pins_for("formats", "tensors") == ("formats",)


def test_a_level_that_no_pin_serves_has_no_pins_rather_than_the_wrong_ones():
    assert pins_for("fixture", "tokens", PINS) == ()
    assert pins_for("fixture", "tensors", PINS) == ("half_right",)


def test_an_engine_with_a_typo_is_a_usage_problem_with_the_near_one():
    with pytest.raises(UsageProblem, match="did you mean llama_cpp"):
        pins_for("lama_cpp", "tensors")


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_lock_and_pin_name_the_same_wheels(name):
    entry = pin(name)
    section = entry.lock.read_text().split(f"\n{entry.package}=={entry.version} ")[1].split("==")[0]
    assert set(entry.wheels.values()) <= set(re.findall(r"--hash=sha256:([0-9a-f]{64})", section))


@pytest.mark.parametrize("name", sorted(load_pins()))
def test_every_requirement_is_pinned_with_hashes_and_names_no_registry(name):
    lines = [
        line for line in pin(name).lock.read_text().splitlines() if line and not line.startswith(("#", " "))
    ]
    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9a-z.]+ \\", line) for line in lines)
    assert "://" not in pin(name).lock.read_text()


def test_every_worker_folder_has_its_pin():
    workers = {path.parent for path in ORACLES.glob("**/worker.py") if "tests" not in path.parts}
    assert workers == {entry.folder for entry in load_pins().values()}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("role: judge", "role: jugde"), "role"),
        (("version: 1.0.0", "verison: 1.0.0"), "version"),
        (("levels: [tensors]", "levels: [tensor]"), "levels.0"),
        (("name: half_right", "name: Half Right"), "name"),
        (("licence: none", "licence: [none"), "(whole file)"),
    ],
)
def test_a_broken_pin_names_its_file_and_field(change, field, tmp_path):
    (tmp_path / "broken").mkdir()
    text = (PINS / "half_right" / "pin.yaml").read_text()
    assert change[0] in text
    (tmp_path / "broken" / "pin.yaml").write_text(text.replace(*change))
    with pytest.raises(BadInput) as caught:
        load_pins(tmp_path)
    assert caught.value.file.endswith("broken/pin.yaml")
    assert caught.value.field == field


def test_a_change_beside_the_worker_leaves_the_pin_as_it_was(tmp_path):
    entry = pin("llama_cpp.ops")
    for path in entry.folder.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    copy = entry.model_copy(update={"folder": tmp_path})
    before = copy.worker_sha256()
    assert before == entry.worker_sha256()
    with (tmp_path / "gguf_file.py").open("a") as file:
        file.write("\n")
    assert copy.worker_sha256() != before
