"""Families of type selection: our choice for each tensor under a preset against that of the engine's quantizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cases.ggml import type_selection_models
from cases.ggml.type_selection_models import shapes
from cases.upstream import type_snapshots
from harness import presets as selection
from harness.containers import open_checkpoint
from harness.evidence.case import Ancestor, Family
from harness.presets.model import Model
from harness.presets.rules import VERY_LOW
from harness.presets.select import PREFIX, Refused, Selected, presets, select_types
from harness.rows.model import Dimension
from oracles.pool import Oracle

ENGINE = "llama_cpp.model"
KERNEL = "harness/presets/select.py:select_types"
BOUND = "the same fields"

NAMES = tuple(name for name, (canonical, _) in presets().items() if name == canonical)
"""Presets that are no other's second name."""

WRITTEN = tuple(name for name in NAMES if name != "NVFP4")
"""Presets that the quantizer writes."""

DEMOS = ("smollm2", "tiny", "tiny-moe")
UPSTREAM = tuple(name for name, model in shapes().items() if model.source == "upstream")
REFUSING = ("no-layer", "far-layer")
OURS = tuple(name for name in shapes() if name not in (*UPSTREAM, *REFUSING))

ASKING_FOR_HEADS = VERY_LOW | {"Q2_K", "Q2_K_S", "IQ3_XXS", "IQ3_XS", "IQ3_S", "IQ4_NL", "IQ4_XS"}
"""Presets with a rule that asks how many query heads share an attention value."""

IMATRIX = ("without", "with")


@dataclass(frozen=True)
class Options:
    """What is asked of the quantizer beside the preset; encodings without the dialect."""

    pure: bool = False
    overrides: tuple[tuple[str, str], ...] = ()
    output: str | None = None
    embedding: str | None = None

    def ours(self) -> dict[str, Any]:
        """As `select_types` takes them."""
        return {"pure": self.pure, **self._encodings("output", "embedding")}

    def theirs(self) -> dict[str, Any]:
        """As the worker takes them."""
        return {"pure": self.pure, **self._encodings("output_type", "embedding_type")}

    def _encodings(self, output: str, embedding: str) -> dict[str, Any]:
        given = {output: self.output, embedding: self.embedding}
        named = {name: f"ggml.{value}" for name, value in given.items() if value is not None}
        overrides = [(pattern, f"ggml.{value}") for pattern, value in self.overrides]
        return {**named, **({"overrides": overrides} if overrides else {})}


PLAIN = Options()
OPTIONS: Mapping[str, Options] = {
    "pure": Options(pure=True),
    "one_weight": Options(overrides=((r"blk\.2\.attn_v", "q8_0"),)),
    "first_of_two": Options(overrides=(("ffn_down", "q5_1"), (r"blk\.1\.ffn_down", "q4_0"))),
    "values_not_counted": Options(overrides=((r"blk\.[0-3]\.(attn_v|attn_qkv|ffn_down)\.", "f16"),)),
    "too_wide": Options(overrides=(("attn_output", "q6_k"), ("attn_q", "iq3_xxs"), ("attn_k", "mxfp4"))),
    "no_fallback": Options(overrides=(("attn_v", "nvfp4"),)),
    "pure_but_one": Options(pure=True, overrides=(("ffn_down", "q8_0"),)),
    "output": Options(output="q8_0"),
    "embedding": Options(embedding="q5_1"),
    "both": Options(output="f16", embedding="q4_0"),
    "embedding_but_one": Options(embedding="q8_0", overrides=(("per_layer", "q4_0"), ("token_embd", "q5_0"))),
}
OPTION_MODELS = ("per-layer-embeddings", "eight-experts", "odd-widths", "falcon")
OPTION_PRESETS = ("Q4_K_M", "Q3_K_M", "IQ2_M", "IQ3_XS", "MXFP4_MOE", "BF16")

FILES = (
    Path(__file__),
    Path(__file__).with_name("test_type_selection.py"),
    Path(type_selection_models.__file__),
    type_selection_models.DATA,
    *sorted(Path(selection.__file__).parent.glob("*.py")),
)
_SNAPSHOT_FILES = (Path(type_snapshots.__file__), type_snapshots.PATH)


def _family(
    name: str,
    axes: Mapping[str, tuple[str, ...]],
    *,
    refuse: Callable[[Mapping[str, str]], str | None] | None = None,
    upstream: tuple[Ancestor, ...] = (),
    files: tuple[Path, ...] = (),
) -> Family:
    return Family(
        name=name,
        op="select_types",
        dimension=Dimension.RECOGNIZE,
        backends=("cpu",),
        encodings=(),
        axes=axes,
        rows=lambda _: (),
        rows_by_axes=lambda chosen: (PREFIX + chosen["preset"],),
        bound=BOUND,
        files=FILES + files,
        upstream=upstream,
        refuse=refuse,
    )


def _ends_the_engine(chosen: Mapping[str, str]) -> str | None:
    """Rules that ask for the heads of layer 0 end the engine's process when there is no layer."""
    if shapes().get(chosen["model"]) is None or shapes()[chosen["model"]].architecture != "clip":
        return None
    return "the engine ends its process" if chosen["preset"] in ASKING_FOR_HEADS else None


SHAPES = _family(
    "ggml.preset_types",
    {"model": (*DEMOS, *OURS), "preset": WRITTEN, "imatrix": IMATRIX},
    refuse=_ends_the_engine,
)
SNAPSHOTS = _family(
    "ggml.preset_types_upstream",
    {"model": UPSTREAM, "preset": type_snapshots.snapshots().presets},
    upstream=(
        Ancestor("llama.cpp", "tests/test-quant-type-selection.cpp", "run_remote_tests", "the same types"),
    ),
    files=_SNAPSHOT_FILES,
)
ASKED = _family(
    "ggml.preset_options", {"model": OPTION_MODELS, "preset": OPTION_PRESETS, "options": tuple(OPTIONS)}
)
FILES_WRITTEN = _family(
    "ggml.preset_files",
    {"model": ("seven-layers", "odd-widths", *REFUSING), "preset": NAMES, "imatrix": IMATRIX},
    refuse=lambda chosen: (
        "a refusal by name that needs no importance matrix"
        if chosen["model"] in REFUSING and chosen["imatrix"] == "with"
        else None
    ),
)


def our_choice(
    preset: str, model: Model, imatrix: str, options: Options = PLAIN, **how: Any
) -> dict[str, object]:
    """Tensor -> encoding, or `refused` -> the words by which the engine refuses."""
    try:
        chosen: Mapping[str, Selected] = select_types(
            preset, model, imatrix=imatrix == "with", **options.ours(), **how
        )
    except Refused as refusal:
        return {"refused": refusal.engine_says}
    return {name: selected.encoding for name, selected in chosen.items()}


def their_choice(
    engine: Oracle,
    path: Path,
    preset: str,
    imatrix: str,
    ours: Mapping[str, object],
    options: Options = PLAIN,
) -> dict[str, object]:
    """The same from the engine's dry run."""
    request = {"source": str(path), "ftype": presets()[preset][1].ftype, **options.theirs()}
    # The dry run only asks whether there is one.
    given = {"token_embd.weight": np.ones(1, np.float32)} if imatrix == "with" else {}
    result = engine.call("quantize_types", request, given).result
    if result["rc"]:
        return _refusal(result["log"], ours)
    return {tensor["name"]: tensor["to"] for tensor in result["tensors"]}


def their_file(
    engine: Oracle, path: Path, target: Path, preset: str, imatrix: str, ours: Mapping[str, object]
) -> dict[str, object]:
    """The same from a file that the engine writes."""
    request = {"source": str(path), "target": str(target), "ftype": presets()[preset][1].ftype}
    request |= {"imatrix_seed": 1} if imatrix == "with" else {}
    result = engine.call("quantize_model", request).result
    if result["rc"]:
        return _refusal(result["log"], ours)
    with open_checkpoint(target) as written:
        return {tensor.name: tensor.encoding for tensor in written.tensors}


def _refusal(log: list[str], ours: Mapping[str, object]) -> dict[str, object]:
    """The refusal in our words when the engine's log holds them, otherwise its own."""
    says = ours.get("refused")
    held = isinstance(says, str) and any(says in line for line in log)
    return {"refused": says if held else log[-1]}
