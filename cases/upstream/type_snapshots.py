"""llama.cpp's own record of its type selection: `type_snapshots.yaml`, 12 models x 33 presets, without an importance matrix."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cases.upstream.layer_lists import layer_numbers
from harness.rows.strict_yaml import read_mapping, validated

PATH = Path(__file__).parent / "type_snapshots.yaml"
OUTSIDE = "outside"


class Snapshots(BaseModel):
    """The file: `models` holds, by model, weight and layers, a word with one letter a preset."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    presets: tuple[str, ...] = Field(min_length=1)
    defaults: tuple[str, ...]
    letters: dict[str, str]
    models: dict[str, dict[str, dict[str, str]]]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len(self.defaults) != len(self.presets):
            raise ValueError("one default for each preset")
        words = {word for weights in self.models.values() for at in weights.values() for word in at.values()}
        if any(len(word) != len(self.presets) or not {*word} <= {".", *self.letters} for word in words):
            raise ValueError("words of one known letter for each preset")
        return self


@cache
def snapshots() -> Snapshots:
    """The whole record. Raises BadInput naming the field that does not fit."""
    return validated(Snapshots, read_mapping(PATH), file=PATH)


def expected(model: str, preset: str, names: Iterable[str]) -> dict[str, str]:
    """The encoding that the record gives each of the weights `names` of a model under a preset."""
    words = _words(model)
    at = snapshots().presets.index(preset)
    found: dict[str, str] = {}
    for name in names:
        word = words.get(name)
        letter = "." if word is None else word[at]
        found[name] = snapshots().defaults[at] if letter == "." else snapshots().letters[letter]
    return found


def recorded(model: str) -> frozenset[str]:
    """The names of the weights that have another encoding than the default under some preset."""
    return frozenset(_words(model))


@cache
def _words(model: str) -> dict[str, str]:
    words: dict[str, str] = {}
    for weight, places in snapshots().models[model].items():
        for at, word in places.items():
            layers = (None,) if at == OUTSIDE else layer_numbers(at)
            for layer in layers:
                prefix = "" if layer is None else f"blk.{layer}."
                words[f"{prefix}{weight}.weight"] = word
    return words
