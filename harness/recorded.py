"""What the files of the presets were when they were first written: `recipes/derived/SOURCE.yaml`, one entry a file.

    source: tiny
    files:
      Q4_K_M: {sha256: …, bytes: …, types: {rest: q4_k, output: q6_k, attn_v: "q6_k*2"}}
      IQ3_XXS: {refused: requires an importance matrix}

`types` gives the encoding (of ggml) by the tensor's name without layer and `.weight`: one word for every layer, or several
in the order of the layers, `q6_k*2` being the same twice. `rest` stands for matrices that are not named; what has one
dimension and is not named is float32.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby

from pydantic import BaseModel, ConfigDict, model_validator

from harness.containers.checkpoint import TensorInfo
from harness.derived import DERIVED, Recipe, Written
from harness.errors import BadInput
from harness.rows.strict_yaml import read_mapping, validated

REST = "rest"
_LAYER = re.compile(r"^blk\.(\d+)\.(.+)$")


class RecordedFile(BaseModel):
    """One file: its types, and its digest and size once it was written; or the end of what the quantizer refused it with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str | None = None
    bytes: int | None = None
    types: dict[str, str] | None = None
    refused: str | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> RecordedFile:
        if (self.refused is None) == (self.types is None) or (self.sha256 is None) != (self.bytes is None):
            raise ValueError("wanted types, with sha256 and bytes or without both, or refused")
        return self


class Recorded(BaseModel):
    """Every file of one source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    files: dict[str, RecordedFile]


@functools.cache
def recorded(source: str) -> Mapping[str, RecordedFile]:
    """The recorded files of a demo by variant (`Q4_K_M`, `IQ3_XXS+imatrix`); empty when none were recorded."""
    path = DERIVED / f"{source}.yaml"
    if not path.is_file():
        return {}
    return validated(Recorded, read_mapping(path), file=path).files


def unlike_recorded(recipe: Recipe, written: Written) -> str | None:
    """In words, that a file is not the one that was recorded under its name; None when it is, or none was."""
    entry = recorded(recipe.source).get(recipe.variant)
    if entry is None or entry.sha256 in (None, written.sha256):
        return None
    return (
        f"demo:{recipe.name} has the sha256 {written.sha256}, recorded is {entry.sha256}: "
        "another build of the quantizer, or another platform, wrote it"
    )


def place(name: str) -> tuple[str, int | None]:
    """A tensor's name without layer and suffix, and its layer: `blk.3.attn_v.weight` is ("attn_v", 3)."""
    found = _LAYER.match(name)
    role = found[2] if found else name
    return role.removesuffix(".weight"), int(found[1]) if found else None


def expanded(types: Mapping[str, str], tensors: Iterable[TensorInfo]) -> dict[str, str]:
    """Tensor -> encoding, for the tensors of the source. Raises BadInput when the words do not fit the layers."""
    listed = {role: _words(text) for role, text in types.items()}
    layers: Counter[str] = Counter()
    found = {}
    for tensor in sorted(tensors, key=lambda tensor: place(tensor.name)[1] or 0):
        role, _ = place(tensor.name)
        if role not in listed:
            found[tensor.name] = f"ggml.{types[REST] if len(tensor.shape) > 1 else 'f32'}"
            continue
        words = listed[role]
        found[tensor.name] = f"ggml.{words[min(layers[role], len(words) - 1)]}"
        layers[role] += 1
    wrong = [role for role, words in listed.items() if role != REST and len(words) not in (1, layers[role])]
    if wrong:
        raise BadInput(
            file=DERIVED, field=f"types, {wrong[0]}", got=types[wrong[0]], wanted=f"{layers[wrong[0]]} layers"
        )
    return found


def collapsed(encodings: Mapping[str, str], tensors: Iterable[TensorInfo]) -> dict[str, str]:
    """The inverse of `expanded`."""
    listed = sorted(tensors, key=lambda tensor: place(tensor.name)[1] or 0)
    matrices = Counter(encodings[tensor.name] for tensor in listed if len(tensor.shape) > 1)
    rest = matrices.most_common(1)[0][0].removeprefix("ggml.")
    roles: dict[str, list[str]] = {}
    usual: dict[str, str] = {}
    for tensor in listed:
        role, _ = place(tensor.name)
        roles.setdefault(role, []).append(encodings[tensor.name].removeprefix("ggml."))
        usual[role] = rest if len(tensor.shape) > 1 else "f32"
    types = {REST: rest}
    for role, words in roles.items():
        if set(words) == {usual[role]}:
            continue
        runs = [(word, len(list(run))) for word, run in groupby(words)]
        same = len(set(words)) == 1
        types[role] = words[0] if same else " ".join(f"{word}*{n}" if n > 1 else word for word, n in runs)
    return types


def _words(text: str) -> list[str]:
    words: list[str] = []
    for part in text.split():
        word, _, times = part.partition("*")
        words += [word] * int(times or 1)
    return words
