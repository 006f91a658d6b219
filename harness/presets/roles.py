"""What a tensor is to the quantizer, by its name alone, and which tensors it leaves as they are."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from harness.presets.model import Tensor


class Role(StrEnum):
    """A part that a tensor plays in the rules. `VALUE` stands for all that hold attention values, fused ones too."""

    EMBEDDING = "token embedding"
    OUTPUT = "output matrix"
    VALUE = "attention value"
    KEY = "attention key"
    QUERY = "attention query"
    ATTENTION_OUTPUT = "attention output"
    FFN_UP = "feed-forward up"
    FFN_GATE = "feed-forward gate"
    FFN_DOWN = "feed-forward down"
    OTHER = "other weight"


WHOLE_NAMES: Mapping[str, Role] = {
    "output.weight": Role.OUTPUT,
    "token_embd.weight": Role.EMBEDDING,
    "per_layer_token_embd.weight": Role.EMBEDDING,
}
PARTS: tuple[tuple[str, Role], ...] = (
    ("attn_qkv.weight", Role.VALUE),
    ("attn_kv_b.weight", Role.VALUE),
    ("attn_v.weight", Role.VALUE),
    ("attn_k.weight", Role.KEY),
    ("attn_q.weight", Role.QUERY),
    ("attn_output.weight", Role.ATTENTION_OUTPUT),
    ("ffn_up", Role.FFN_UP),
    ("ffn_gate", Role.FFN_GATE),
    ("ffn_down", Role.FFN_DOWN),
)
"""A part of the name -> the role. The first that occurs decides, wherever in the name it stands."""

LEFT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("normalization", ("_norm.weight",)),
    ("the router of the experts", ("ffn_gate_inp.weight", "ffn_gate_tid2eid.weight")),
    ("a small matrix of the per-layer embeddings", ("altup", "laurel", "per_layer_model_proj")),
    ("a short convolution", ("ssm_conv1d", "shortconv.conv.weight")),
    ("the projection of a sparse attention's indexer", ("indexer.k_proj.weight", "indexer.q_proj.weight")),
    (
        "a small matrix of RWKV's time mixing",
        (
            *(
                f"time_mix_{name}.weight"
                for name in ("first", "w0", "w1", "w2", "v0", "v1", "v2", "a0", "a1")
            ),
            *(f"time_mix_{name}.weight" for name in ("a2", "g1", "g2", "decay_w1", "decay_w2", "lerp_fused")),
        ),
    ),
    ("a relative position bias", ("attn_rel_b.weight",)),
    (
        "an image encoder's positions, patches or neck",
        (
            ".position_embd",
            "sam.pos_embd",
            "sam.neck.",
            "sam.net_",
            ".rel_pos",
            ".patch_embd",
            ".patch_merger",
        ),
    ),
    ("an audio codebook", ("a.rvq.codebook", "mm.a.code_embd")),
)
"""Why a weight keeps its encoding -> parts of the names of such weights."""

LEFT_BY_NAME: Mapping[str, str] = {
    "position_embd.weight": "position embedding",
    "token_types.weight": "token type embedding",
}
LEFT_BY_ARCHITECTURE: Mapping[str, tuple[str, ...]] = {
    "glm5-next": (
        "hc_",
        "indexer.attn_q_b",
        "indexer.attn_k",
        "indexer.proj",
        "indexer_compressor_gate",
        "indexer_compressor_ape",
        *(f"ssm_{name}.weight" for name in ("f_a", "f_b", "g_a", "g_b", "beta")),
        *(f"attn_{name}.weight" for name in ("kv_a_mqa", "k_b", "v_b")),
    )
}
AT_LEAST_Q8_0: Mapping[str, tuple[str, ...]] = {"glm5-next": ("attn_q_a", "attn_q_b", "nextn.eh_proj")}
"""Architecture -> parts of the names of weights that no preset of fewer bits touches."""


@lru_cache(maxsize=1 << 14)
def role_of(name: str) -> Role:
    """The role of a tensor of this name."""
    if name in WHOLE_NAMES:
        return WHOLE_NAMES[name]
    return next((role for part, role in PARTS if part in name), Role.OTHER)


def why_left(architecture: str, tensor: Tensor) -> str | None:
    """Why the tensor keeps the encoding that it has; None when a preset may change it."""
    return "a vector" if tensor.dimensions < 2 else _why_name_left(architecture, tensor.name)


@lru_cache(maxsize=1 << 14)
def _why_name_left(architecture: str, name: str) -> str | None:
    # The engine compares the last place of `weight` with length - 6. For a name of five bytes without it both are -1.
    if not name.endswith("weight") and len(name.encode()) != 5:
        return "not a weight by its name"
    if name in LEFT_BY_NAME:
        return LEFT_BY_NAME[name]
    if any(part in name for part in LEFT_BY_ARCHITECTURE.get(architecture, ())):
        return f"a small matrix of {architecture}"
    return next((why for why, parts in LEFT if any(part in name for part in parts)), None)
