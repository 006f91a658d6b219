"""The shapes and the record of type selection hold what they promise, and every rule decides something on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from cases.ggml.type_selection import ASKING_FOR_HEADS, OURS, UPSTREAM, WRITTEN
from cases.ggml.type_selection_models import shapes, tensors_of, write_model
from cases.upstream import type_snapshots
from cases.upstream.layer_lists import layer_numbers
from harness.containers import open_checkpoint
from harness.errors import BadInput
from harness.presets import Refused, read_model, rules, select_types
from harness.presets.roles import Role
from harness.presets.select import presets

TABLES = ("LAYER_RULES", "VERY_LOW_RULES")


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("3", [3]),
        ("0-3", [0, 1, 2, 3]),
        ("1,5-9:2", [1, 5, 7, 9]),
        ("0-5 except 1-5:2", [0, 2, 4]),
    ],
)
def test_a_list_of_layers_is_read_otherwise(text: str, layers: list[int]) -> None:
    assert list(layer_numbers(text)) == layers


def test_the_record_names_another_default_than_our_rows() -> None:
    record = type_snapshots.snapshots()
    ours = [presets()[name][1].default for name in record.presets]
    assert ours == list(record.defaults)
    assert len(record.presets) == 33


def test_a_recorded_model_or_weight_has_no_shape() -> None:
    assert set(type_snapshots.snapshots().models) == set(UPSTREAM)
    for name in UPSTREAM:
        missing = type_snapshots.recorded(name) - {tensor.name for tensor in tensors_of(shapes()[name])}
        assert not missing, (name, missing)


def test_a_shape_of_ours_does_not_say_what_it_is_for() -> None:
    assert all(shapes()[name].why for name in OURS)


def test_a_rule_decides_nothing_on_any_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it wrong or gone, no case would show it."""
    wanted: set[tuple[str, str]] = set()
    for attribute in TABLES:
        table: Mapping[Role, tuple[rules.Rule, ...]] = getattr(rules, attribute)
        marked = {
            role: tuple(
                dataclasses.replace(rule, because=f"{attribute} {role} {at}") for at, rule in enumerate(found)
            )
            for role, found in table.items()
        }
        wanted |= {
            (rule.because, name) for found in marked.values() for rule in found for name in rule.presets
        }
        monkeypatch.setattr(rules, attribute, marked)
    decided: set[tuple[str, str]] = set()
    for model_name in OURS:
        path = tmp_path / "model.gguf"
        write_model(path, shapes()[model_name])
        with open_checkpoint(path) as checkpoint:
            model = read_model(checkpoint)
        for preset in WRITTEN:
            for imatrix in (False, True):
                try:
                    chosen = select_types(preset, model, imatrix=imatrix, dry_run=True)
                except Refused:
                    continue
                except BadInput:
                    assert model.architecture == "clip" and preset in ASKING_FOR_HEADS  # noqa: PT018
                    continue
                decided |= {(selected.because.split(";")[0], preset) for selected in chosen.values()}
    assert not wanted - decided
