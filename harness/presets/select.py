"""Choose an encoding for each tensor of a model under a preset, the way llama.cpp's quantizer does, and say why."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from harness.containers.ggml_types import GgmlType, ggml_types
from harness.errors import UsageProblem
from harness.presets import rules
from harness.presets.model import Model, Tensor
from harness.presets.roles import AT_LEAST_Q8_0, WHOLE_NAMES, Role, role_of, why_left
from harness.rows.load import load_rows
from harness.rows.model import Preset
from harness.text import printable

PREFIX = "QUANT-GGUF-PRESET-"
_NOT_WRITTEN = frozenset({"NVFP4"})
"""Presets whose number the quantizer does not write."""

_FLOATS = frozenset({"ggml.f32", "ggml.f16", "ggml.bf16"})


@dataclass(frozen=True, slots=True)
class Selected:
    """The encoding of one tensor, and why. `needs_imatrix`: the quantizer does not write it without an importance matrix."""

    encoding: str
    because: str
    needs_imatrix: bool = False


class Refused(UsageProblem):
    """The quantizer would not write the file. `engine_says` is the part of its message by which it can be known."""

    def __init__(self, message: str, *, engine_says: str, tensor: str | None = None) -> None:
        super().__init__(message)
        self.engine_says = engine_says
        self.tensor = tensor


@cache
def presets() -> Mapping[str, tuple[str, Preset]]:
    """Every preset's name, aliases among them -> the name that the rules use, and the preset as the rows hold it."""
    rows = load_rows()
    return {
        name.removeprefix(PREFIX): ((found.alias_of or name).removeprefix(PREFIX), found.preset)
        for name, found in rows.items()
        if name.startswith(PREFIX) and found.preset is not None
    }


def select_types(
    preset: str,
    model: Model,
    *,
    imatrix: bool,
    pure: bool = False,
    overrides: Sequence[tuple[str, str]] = (),
    output: str | None = None,
    embedding: str | None = None,
    dry_run: bool = False,
) -> dict[str, Selected]:
    """The encoding of each tensor by name, in the order in which the quantizer visits them.

    `imatrix`: an importance matrix is given. `pure`: the default for every weight. `overrides`: (pattern, encoding);
    the first pattern that is found in a name decides. `output`, `embedding`: the encoding of the output matrix and of
    the token embeddings. `dry_run`: choose even where an importance matrix is missing.
    Raises Refused where the quantizer does, UsageProblem for a preset, pattern or encoding that does not exist.
    """
    name, found = _preset(preset)
    patterns = [_override(pattern, encoding) for pattern, encoding in overrides]
    for option, encoding in (("output", output), ("embedding", embedding)):
        _check_encoding(option, encoding or found.default)
    state = _State(name, found.default, model, imatrix, pure, patterns, output, embedding)
    chosen: dict[str, Selected] = {}
    for tensor in model.in_order:
        selected = chosen[tensor.name] = _select(state, tensor)
        if selected.needs_imatrix and not imatrix and not dry_run:
            what = (
                f"would become {_short(selected.encoding)}, which is not written without an importance matrix"
            )
            raise _refused(model, tensor, what, "this quantization requires an imatrix!")
    return chosen


def _refused(model: Model, tensor: Tensor, what: str, engine_says: str) -> Refused:
    message = f"{printable(model.file)}: tensor {printable(tensor.name)} {what}"
    return Refused(message, engine_says=engine_says, tensor=tensor.name)


@dataclass
class _State:
    """What the engine carries from tensor to tensor: how many of a role it has passed."""

    preset: str
    default: str
    model: Model
    imatrix: bool
    pure: bool
    overrides: Sequence[tuple[re.Pattern[str], str]]
    output: str | None = None
    embedding: str | None = None
    passed: dict[Role, int] = field(default_factory=dict)

    @cached_property
    def values(self) -> int:
        return sum(role_of(tensor.name) is Role.VALUE for tensor in self.model.tensors)

    def pass_one(self, role: Role) -> int:
        before = self.passed.get(role, 0)
        self.passed[role] = before + 1
        return before


def _preset(name: str) -> tuple[str, Preset]:
    if name not in presets():
        near = difflib.get_close_matches(name.upper(), presets(), n=1)
        raise UsageProblem(
            f"no preset is called {printable(name)}; there are: {', '.join(presets())}"
            + (f"; did you mean {near[0]}?" if near else "")
        )
    canonical, found = presets()[name]
    if canonical in _NOT_WRITTEN:
        says = f"invalid output file type {found.ftype}"
        raise Refused(f"preset {name}: the quantizer writes no such file ({says})", engine_says=says)
    return canonical, found


def _check_encoding(option: str, encoding: str) -> None:
    if encoding not in _kinds():
        raise UsageProblem(f"{printable(option)}: {printable(encoding)} is not an encoding of ggml")


def _override(pattern: str, encoding: str) -> tuple[re.Pattern[str], str]:
    _check_encoding(f"override {pattern}", encoding)
    try:
        return re.compile(pattern), encoding
    except re.error as error:
        raise UsageProblem(f"override {printable(pattern)}: not a regular expression ({error})") from None


def _select(state: _State, tensor: Tensor) -> Selected:
    left = why_left(state.model.architecture, tensor)
    if left is not None:
        return Selected(tensor.encoding, f"left as it is: {left}")
    asked = _asked_for(state, tensor)
    if asked is not None:
        if tensor.columns % _kinds()[asked].block_elems:
            what = (
                f"has {tensor.columns} columns, which are not whole blocks of the {_short(asked)} asked for"
            )
            raise UsageProblem(f"{printable(state.model.file)}: tensor {printable(tensor.name)} {what}")
        return Selected(asked, "asked for", _needs_imatrix(state, tensor, asked))
    if state.default in _FLOATS:
        return Selected(state.default, f"{state.preset} stores every weight so")
    encoding, because = _wanted(state, tensor)
    fitting, why = _fitting(state, tensor, encoding)
    return Selected(fitting, because + why, _needs_imatrix(state, tensor, fitting))


def _asked_for(state: _State, tensor: Tensor) -> str | None:
    """The encoding that an option names for this tensor, which neither preset nor width changes."""
    role = role_of(tensor.name)
    if role is Role.OUTPUT:
        return state.output
    if role is not Role.EMBEDDING:
        return None
    # The per-layer embedding is a large table of its own: an override by name goes before the option.
    if tensor.name == "per_layer_token_embd.weight" and _overridden(state, tensor) is not None:
        return None
    return state.embedding


def _overridden(state: _State, tensor: Tensor) -> tuple[str, str] | None:
    found = next((item for item in state.overrides if item[0].search(tensor.name)), None)
    return None if found is None else (found[1], f"the override {found[0].pattern} names it")


def _wanted(state: _State, tensor: Tensor) -> tuple[str, str]:
    """What the tensor would get if its width allowed it."""
    overridden = _overridden(state, tensor)
    if overridden is not None:
        return overridden
    if state.pure:
        return state.default, "pure: the default for every weight"
    kept = AT_LEAST_Q8_0.get(state.model.architecture, ())
    if any(part in tensor.name for part in kept):
        return "ggml.q8_0", f"{state.model.architecture} keeps this weight at Q8_0"
    role = role_of(tensor.name)
    if role is Role.OUTPUT or (role is Role.EMBEDDING and state.model.tied):
        encoding, why = _output(state, tensor)
        return encoding, why if role is Role.OUTPUT else f"it is the output matrix too: {why}"
    if state.preset == rules.MXFP4:
        return _by_stack(state, tensor, role)
    if role is Role.EMBEDDING:
        return _first(state, rules.EMBEDDING_RULES, 0, 0) or _default(state, role)
    return _in_layer(state, tensor, role)


def _output(state: _State, tensor: Tensor) -> tuple[str, str]:
    block = _kinds()[state.default].block_elems
    if state.output is not None:  # only an embedding arrives here with it
        return state.output, "asked for the output matrix"
    if state.preset == rules.MXFP4:
        return "ggml.q8_0", "only stacked experts become MXFP4"
    if state.model.architecture == "falcon":
        return "ggml.q8_0", "Falcon's output matrix gets Q8_0"
    if tensor.columns % block:
        return "ggml.q8_0", f"its {tensor.columns} columns are not whole blocks of the default's {block}"
    if state.preset in rules.OUTPUT_AS_Q5_K:
        return "ggml.q5_k", "the output matrix gets more bits than the layers"
    if state.default == "ggml.q8_0":
        return state.default, f"the default of {state.preset}"
    return "ggml.q6_k", "the output matrix gets more bits than the layers"


def _by_stack(state: _State, tensor: Tensor, role: Role) -> tuple[str, str]:
    experts = role in (Role.FFN_UP, Role.FFN_GATE, Role.FFN_DOWN)
    if tensor.stacked and (experts or state.model.architecture != "bailingmoe3"):
        return "ggml.mxfp4", "a stack of matrices, as experts are"
    return "ggml.q8_0", "only stacked experts become MXFP4"


def _in_layer(state: _State, tensor: Tensor, role: Role) -> tuple[str, str]:
    model = state.model
    if state.preset in rules.VERY_LOW:
        # Counted by tensors even with experts: two a layer move the first eighth of the layers to its first half.
        place = state.pass_one(role)
        return _first(state, rules.VERY_LOW_RULES.get(role, ()), place, model.layers) or _default(state, role)
    place, places = state.pass_one(role), model.layers
    if role is Role.VALUE:
        places = state.values
    elif role in (Role.FFN_DOWN, Role.FFN_GATE, Role.FFN_UP) and model.experts > 1:
        place = _layer(model, tensor)
    chosen = _first(state, rules.LAYER_RULES.get(role, ()), place, places) or _default(state, role)
    if role is Role.VALUE and model.is_70b and chosen[0] in rules.RAISED_IN_70B:
        return "ggml.q5_k", "a 70B model has few attention values, so that more bits cost little"
    return chosen


def _layer(model: Model, tensor: Tensor) -> int:
    """The layer that a tensor's name gives: with experts, tensors of a role cannot be counted. Raises Refused."""
    layer = tensor.layer
    if layer is None:
        what = "has no layer in its name, and the model has experts"
        raise _refused(model, tensor, what, f"Failed to determine layer for tensor {tensor.name}")
    if not 0 <= layer < model.layers:
        what = f"is in layer {layer} of a model with {model.layers}"
        raise _refused(model, tensor, what, f"Bad layer {layer} for tensor {tensor.name}")
    return layer


def _first(state: _State, table: Sequence[rules.Rule], place: int, places: int) -> tuple[str, str] | None:
    facts = rules.Facts(state.model, state.imatrix, place, places)
    found = next((rule for rule in table if state.preset in rule.presets and rule.when(facts)), None)
    return None if found is None else (found.gives, found.because)


def _default(state: _State, role: Role) -> tuple[str, str]:
    return state.default, f"the default of {state.preset} ({role})"


def _fitting(state: _State, tensor: Tensor, encoding: str) -> tuple[str, str]:
    """The encoding, or the one that stands in for it where the columns are not whole blocks. Raises Refused."""
    kinds = _kinds()
    block = kinds[encoding].block_elems
    if tensor.columns % block == 0:
        return encoding, ""
    fallback = rules.FALLBACKS.get(encoding)
    words = f"; {tensor.columns} columns are not whole blocks of {block}, so {_short(encoding)} gives way to "
    if fallback is None and block > rules.LARGEST_BLOCK_WITHOUT_FALLBACK:
        says = f"no tensor type fallback is defined for type {_short(encoding).lower()}"
        what = f"has {tensor.columns} columns, which are not whole blocks of {block} ({says})"
        raise _refused(state.model, tensor, what, says)
    if fallback is None or tensor.columns % kinds[fallback].block_elems:
        fallback = rules.LAST_RESORT
    return fallback, words + _short(fallback)


def _needs_imatrix(state: _State, tensor: Tensor, encoding: str) -> bool:
    if tensor.name in WHOLE_NAMES:
        return False
    return encoding in rules.NEEDS_IMATRIX or rules.NEEDS_IMATRIX_UNDER.get(state.preset) == encoding


def _short(encoding: str) -> str:
    return encoding.removeprefix("ggml.").upper()


@cache
def _kinds() -> dict[str, GgmlType]:
    """Encoding -> its block, for all that a tensor may be quantized to."""
    return {kind.encoding: kind for kind in ggml_types().values() if kind.encoding is not None}
