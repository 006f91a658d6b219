"""Type selection on hand-made models: what the engine's cases cannot show, and what is refused."""

from __future__ import annotations

import pytest

from harness.errors import BadInput, UsageProblem
from harness.presets import Model, Refused, Tensor, select_types
from harness.presets.select import presets


def model(*tensors: Tensor, layers: int = 16, heads: int = 8, kv_heads: int = 8, **other: int) -> Model:
    return Model("llama", layers, heads, kv_heads, other.get("experts", 0), tensors, file="model.gguf")


def weight(name: str, columns: int = 256) -> Tensor:
    return Tensor(name, (2, columns))


def values(count: int) -> list[Tensor]:
    return [weight(f"blk.{layer}.attn_v.weight") for layer in range(count)]


def test_a_missing_importance_matrix_goes_unnoticed() -> None:
    with pytest.raises(
        Refused, match=r"model\.gguf: tensor blk\.0\.attn_q\.weight would become IQ2_XS"
    ) as refusal:
        select_types("IQ2_XS", model(weight("output.weight"), weight("blk.0.attn_q.weight")), imatrix=False)
    assert refusal.value.engine_says == "this quantization requires an imatrix!"


def test_an_output_matrix_is_held_to_need_an_importance_matrix() -> None:
    chosen = select_types("IQ1_S", model(weight("output.weight")), imatrix=False, output="ggml.iq2_xxs")
    assert chosen["output.weight"].encoding == "ggml.iq2_xxs"
    assert not chosen["output.weight"].needs_imatrix


def test_a_dry_run_refuses_what_the_engines_dry_run_does_not() -> None:
    chosen = select_types("IQ2_XS", model(weight("blk.0.attn_q.weight")), imatrix=False, dry_run=True)
    assert chosen["blk.0.attn_q.weight"].needs_imatrix


def test_a_width_without_a_fallback_is_stored_in_something() -> None:
    narrow = model(weight("output.weight"), weight("blk.0.attn_q.weight", 576))
    with pytest.raises(Refused, match="no tensor type fallback is defined for type q1_0"):
        select_types("Q1_0", narrow, imatrix=False)


@pytest.mark.parametrize(("columns", "stored"), [(512, "q4_k"), (288, "q5_0"), (40, "f16")])
def test_a_width_that_does_not_fit_is_not_told_from_one_that_does(columns: int, stored: str) -> None:
    chosen = select_types("Q4_K_S", model(weight("blk.9.attn_q.weight", columns)), imatrix=False)
    found = chosen["blk.9.attn_q.weight"]
    assert found.encoding == f"ggml.{stored}"
    assert ("not whole blocks of 256" in found.because) == (stored != "q4_k")


def test_a_file_type_that_the_quantizer_does_not_write_is_selected() -> None:
    with pytest.raises(Refused, match="invalid output file type 39"):
        select_types("NVFP4", model(), imatrix=False)


def test_a_typo_in_a_preset_is_answered_without_its_neighbour() -> None:
    with pytest.raises(UsageProblem, match=r"no preset is called Q4_K_N; .*did you mean Q4_K_[MS]\?"):
        select_types("Q4_K_N", model(), imatrix=False)


def test_a_second_name_of_a_preset_is_another_preset() -> None:
    one, other = (select_types(name, model(*values(16)), imatrix=False) for name in ("Q4_K", "Q4_K_M"))
    assert one == other
    assert presets()["Q4_K"][0] == "Q4_K_M"


@pytest.mark.parametrize(
    ("override", "words"),
    [(("attn_[", "ggml.q8_0"), "not a regular expression"), (("attn", "ggml.q9_0"), "not an encoding")],
)
def test_an_override_that_means_nothing_is_taken(override: tuple[str, str], words: str) -> None:
    with pytest.raises(UsageProblem, match=words):
        select_types("Q4_K_M", model(), imatrix=False, overrides=[override])


def test_an_option_asks_for_an_encoding_that_the_width_forbids() -> None:
    with pytest.raises(UsageProblem, match=r"tensor output\.weight has 40 columns.*Q8_0 asked for"):
        select_types("Q4_K_M", model(weight("output.weight", 40)), imatrix=False, output="ggml.q8_0")


def test_an_overridden_value_still_counts_as_the_first() -> None:
    """Q4_K_S gives the first four attention values more; one named by hand leaves its place to the next."""
    chosen = select_types("Q4_K_S", model(*values(8)), imatrix=False, overrides=[(r"blk\.0\.", "ggml.q8_0")])
    more = [name for name, found in chosen.items() if found.encoding == "ggml.q5_k"]
    assert more == [f"blk.{layer}.attn_v.weight" for layer in (1, 2, 3, 4)]


def test_layers_are_visited_in_the_order_of_their_names() -> None:
    """Layer 10 would come before layer 2, and get the bits that the first layers get."""
    backwards = model(*reversed(values(12)))
    chosen = select_types("Q4_K_S", backwards, imatrix=False)
    assert list(chosen) == [tensor.name for tensor in values(12)]
    assert chosen["blk.10.attn_v.weight"].encoding == "ggml.q4_k"


def test_an_embedding_that_is_the_output_matrix_too_gets_the_encoding_of_an_embedding() -> None:
    embedding, output = weight("token_embd.weight"), weight("output.weight")
    tied = select_types("IQ2_XS", model(embedding), imatrix=True)["token_embd.weight"]
    apart = select_types("IQ2_XS", model(embedding, output), imatrix=True)["token_embd.weight"]
    assert (tied.encoding, apart.encoding) == ("ggml.q5_k", "ggml.q2_k")
    assert "output matrix" in tied.because


def test_a_vector_or_a_normalization_is_quantized() -> None:
    left = [
        Tensor("blk.0.attn_q.bias", (512,), "ggml.f32"),
        Tensor("blk.0.attn_k.weight", (1, 1, 512), "ggml.f32"),
        Tensor("blk.0.attn_norm.weight", (2, 512), "ggml.bf16"),
        Tensor("blk.0.ffn_gate_inp.weight", (8, 512), "ggml.f32"),
    ]
    chosen = select_types("Q4_0", model(*left), imatrix=False)
    assert {name: found.encoding for name, found in chosen.items()} == {
        tensor.name: tensor.encoding for tensor in left
    }


def test_a_model_without_layers_ends_in_a_traceback() -> None:
    encoder = Model("clip", 0, 0, 0, 0, (weight("v.blk.0.attn_v.weight"),), file="mmproj.gguf")
    assert select_types("Q8_0", encoder, imatrix=False)["v.blk.0.attn_v.weight"].encoding == "ggml.q8_0"
    with pytest.raises(BadInput, match=r"mmproj\.gguf"):
        select_types("Q2_K", encoder, imatrix=False)


@pytest.mark.parametrize("name", ["ffn_down.weight", "blk.16.ffn_down.weight", "blk.-1.ffn_up.weight"])
def test_an_expert_outside_the_layers_is_counted_somewhere(name: str) -> None:
    with pytest.raises(Refused, match="layer") as refusal:
        select_types("Q8_0", model(weight(name), experts=4), imatrix=False)
    assert refusal.value.tensor == name


def test_a_name_forges_a_second_line_of_an_error() -> None:
    with pytest.raises(Refused) as refusal:
        select_types("Q1_0", model(weight("output.weight"), weight("a\nb.weight", 96)), imatrix=False)
    assert "\n" not in str(refusal.value)
