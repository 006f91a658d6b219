"""The rules of the presets as tables: for a role, the first rule whose presets and condition fit gives the encoding.

Learnt from llama.cpp at 0c1e57098 (src/llama-quant.cpp) and confirmed by its quantizer. docs/type-selection.md reads better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.presets.model import Model
from harness.presets.roles import Role


@dataclass(frozen=True, slots=True)
class Facts:
    """What a condition may ask about. `place` of `places` is where the tensor stands among those of its role."""

    model: Model
    imatrix: bool
    place: int
    places: int


Condition = Callable[[Facts], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """`gives` this encoding under these presets when the condition holds. `because` is a clause without a subject."""

    presets: frozenset[str]
    gives: str
    because: str
    when: Condition


def _always(_: Facts) -> bool:
    return True


def _named(names: str) -> list[str]:
    return [f"ggml.{name}" for name in names.split()]


def _rule(presets: str, gives: str, because: str, when: Condition = _always) -> Rule:
    return Rule(frozenset(presets.split()), f"ggml.{gives}", because, when)


def many_queries(facts: Facts) -> bool:
    return facts.model.queries_per_kv_head >= 4


def eight_experts(facts: Facts) -> bool:
    """Exactly eight: the rule was written for one model, and holds for every other with eight."""
    return facts.model.experts == 8


def falcon(facts: Facts) -> bool:
    return facts.model.architecture == "falcon"


def _neither(facts: Facts) -> bool:
    return not falcon(facts) and not eight_experts(facts)


def first_eighth(facts: Facts) -> bool:
    return facts.place < facts.places // 8


def first_sixteenth(facts: Facts) -> bool:
    return facts.place < facts.places // 16


def middle(facts: Facts) -> bool:
    return facts.places // 8 <= facts.place < 7 * facts.places // 8


def favoured(facts: Facts) -> bool:
    """The first eighth, the last eighth, and every third one between."""
    return first_eighth(facts) or not middle(facts) or (facts.place - facts.places // 8) % 3 == 2


VERY_LOW = frozenset({"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M"})
"""Presets with rules of their own for the layers: `VERY_LOW_RULES` and no others."""

MXFP4 = "MXFP4_MOE"
_HIGHER = (
    "Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K "
    "IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS TQ1_0 TQ2_0 Q1_0 Q2_0"
)
_SHARED = "four or more query heads share each value"
_EIGHT = "a model with eight experts spends few bytes on it"
_FIRST = "the first eighth of the layers needs more bits"
_FAVOURED = "the first and last eighth of the layers, and every third between, get more bits"

LAYER_RULES: Mapping[Role, tuple[Rule, ...]] = {
    Role.VALUE: (
        _rule(_HIGHER, "q8_0", _EIGHT, eight_experts),
        _rule("Q2_K Q2_K_S IQ3_XXS IQ3_XS IQ3_S", "q4_k", _SHARED, many_queries),
        _rule("Q2_K", "q3_k", "attention values get one step more"),
        _rule("IQ3_XXS", "iq3_s", "without an importance matrix", lambda facts: not facts.imatrix),
        _rule("IQ3_M", "q4_k", "attention values get one step more"),
        _rule("Q3_K_M", "q5_k", "the first two attention values get most", lambda facts: facts.place < 2),
        _rule("Q3_K_M", "q4_k", "attention values get one step more"),
        _rule("Q3_K_L", "q5_k", "attention values get two steps more"),
        _rule("IQ4_NL IQ4_XS", "q5_k", _SHARED, many_queries),
        _rule("Q4_K_M Q5_K_M", "q6_k", _FAVOURED, favoured),
        _rule("Q4_K_S", "q5_k", "the first four attention values get more", lambda facts: facts.place < 4),
    ),
    Role.KEY: (
        _rule(_HIGHER, "q8_0", _EIGHT, eight_experts),
        _rule("IQ3_XS", "iq3_xxs", "attention keys and queries get fewer bits"),
        _rule("IQ3_XXS", "iq2_s", "attention keys and queries get fewer bits"),
    ),
    Role.QUERY: (
        _rule("IQ3_XS", "iq3_xxs", "attention keys and queries get fewer bits"),
        _rule("IQ3_XXS", "iq2_s", "attention keys and queries get fewer bits"),
    ),
    Role.ATTENTION_OUTPUT: (
        _rule(
            "Q3_K_L", "q4_k", "Falcon's attention output gets one step more, and under Q3_K_L only", falcon
        ),
        _rule(
            "Q2_K IQ3_XS IQ3_XXS Q3_K_S Q3_K_M IQ4_NL Q4_K_S Q4_K_M IQ3_S IQ3_M IQ4_XS",
            "q5_k",
            _EIGHT,
            lambda facts: eight_experts(facts) and not falcon(facts),
        ),
        *(
            _rule(preset, gives, "the attention output gets more", _neither)
            for preset, gives in (
                ("Q2_K", "q3_k"),
                ("IQ3_XXS", "iq3_s"),
                ("Q3_K_M", "q4_k"),
                ("Q3_K_L", "q5_k"),
                ("IQ3_M", "q4_k"),
            )
        ),
    ),
    Role.FFN_DOWN: (
        _rule("Q2_K", "q3_k", "the feed-forward down matrix gets one step more"),
        _rule("Q2_K_S", "q4_k", _FIRST, first_eighth),
        _rule(
            "IQ3_XXS",
            "q4_k",
            f"without an importance matrix, {_FIRST}",
            lambda facts: not facts.imatrix and first_eighth(facts),
        ),
        _rule("IQ3_XXS", "q3_k", "without an importance matrix", lambda facts: not facts.imatrix),
        _rule("Q3_K_M", "q5_k", "the first sixteenth of the layers needs most", first_sixteenth),
        _rule("Q3_K_M", "q4_k", "it gets one step more", lambda facts: not falcon(facts) or favoured(facts)),
        _rule("IQ3_M", "q4_k", _FIRST, first_eighth),
        _rule("IQ3_M", "q4_k", _FAVOURED, lambda facts: eight_experts(facts) and favoured(facts)),
        _rule("Q3_K_L", "q4_k", "Falcon's gets one step more", falcon),
        _rule("Q3_K_L", "q5_k", "it gets two steps more"),
        _rule(
            "Q4_K_M",
            "q6_k",
            "the first sixteenth of Falcon's layers needs most",
            lambda facts: falcon(facts) and first_sixteenth(facts),
        ),
        _rule("Q4_K_M", "q5_k", _FAVOURED, lambda facts: falcon(facts) and favoured(facts)),
        _rule("Q4_K_M", "q6_k", _FAVOURED, lambda facts: not falcon(facts) and favoured(facts)),
        _rule(
            "IQ4_NL IQ4_XS",
            "q5_k",
            f"without an importance matrix, {_FIRST}",
            lambda facts: not facts.imatrix and first_eighth(facts),
        ),
        _rule("Q5_K_M", "q6_k", _FAVOURED, favoured),
        _rule("Q4_K_S", "q5_k", _FIRST, lambda facts: not falcon(facts) and first_eighth(facts)),
        *(
            _rule(
                preset,
                gives,
                f"with an importance matrix, {_FIRST}",
                lambda facts: facts.imatrix and first_eighth(facts),
            )
            for preset, gives in (("Q4_0", "q4_1"), ("Q5_0", "q5_1"))
        ),
    ),
    Role.FFN_GATE: (_rule("IQ3_XS", "iq3_xxs", "the middle of the layers needs fewer bits", middle),),
    Role.FFN_UP: (_rule("IQ3_XS", "iq3_xxs", "the middle of the layers needs fewer bits", middle),),
}

_VERY_LOW = " ".join(sorted(VERY_LOW))
VERY_LOW_RULES: Mapping[Role, tuple[Rule, ...]] = {
    Role.VALUE: (
        _rule(
            _VERY_LOW,
            "q4_k",
            "four or more query heads share each value, or there are four or more experts",
            lambda facts: many_queries(facts) or facts.model.experts >= 4,
        ),
        _rule("IQ2_S IQ2_M", "iq3_s", "attention values get more"),
        _rule("IQ1_S IQ1_M IQ2_XXS IQ2_XS", "q2_k", "attention values get more"),
    ),
    Role.KEY: (_rule(_VERY_LOW, "q4_k", _EIGHT, eight_experts),),
    Role.FFN_DOWN: (
        _rule("IQ2_S IQ2_M", "iq3_s", "the first of them need more bits", first_eighth),
        _rule("IQ1_S IQ1_M IQ2_XXS IQ2_XS", "q2_k", "the first of them need more bits", first_eighth),
    ),
    Role.ATTENTION_OUTPUT: (
        _rule(_VERY_LOW, "q5_k", _EIGHT, eight_experts),
        _rule("IQ1_S IQ1_M", "iq2_xxs", "the attention output gets more"),
        _rule("IQ2_S IQ2_M", "iq3_s", "the attention output gets more"),
    ),
}

EMBEDDING_RULES: tuple[Rule, ...] = (
    _rule("IQ2_XXS IQ2_XS IQ1_S IQ1_M", "q2_k", "the token embedding gets more"),
    _rule("IQ2_S IQ2_M IQ3_XXS", "iq3_s", "the token embedding gets more"),
    _rule("TQ1_0 TQ2_0 Q2_0", "q4_k", "the token embedding keeps more than the ternary weights"),
)
"""For a token embedding beside an output matrix. A shared one follows the rules of the output matrix instead."""

OUTPUT_AS_Q5_K = VERY_LOW | {"IQ3_XXS"}
"""Presets under which the output matrix gets Q5_K. Under the others it gets Q6_K, except where the default is Q8_0."""

FALLBACKS: Mapping[str, str] = {
    **dict.fromkeys(_named("iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s iq4_xs"), "ggml.iq4_nl"),
    **dict.fromkeys(_named("q2_0 q2_k q3_k tq1_0 tq2_0"), "ggml.q4_0"),
    "ggml.q4_k": "ggml.q5_0",
    "ggml.q5_k": "ggml.q5_1",
    "ggml.q6_k": "ggml.q8_0",
}
"""Encoding -> what a tensor gets whose columns are not whole blocks of it. F16 where those do not fit either."""

LAST_RESORT = "ggml.f16"
LARGEST_BLOCK_WITHOUT_FALLBACK = 32
"""An encoding of at most so many weights a block goes to the last resort at once. A longer one needs a fallback."""

RAISED_IN_70B = frozenset({"ggml.q3_k", "ggml.q4_k"})
"""What an attention value of a 70B model never gets: Q5_K stands in its place."""

NEEDS_IMATRIX = frozenset(_named("iq3_xxs iq2_xxs iq2_xs iq2_s iq1_m iq1_s"))
"""Encodings that the quantizer does not write without an importance matrix, but for embeddings and output matrix."""

NEEDS_IMATRIX_UNDER: Mapping[str, str] = {"Q2_K_S": "ggml.q2_k"}
