"""Files that the quantizer makes of a demo: one name for one file, kept whole, and another build's file is seen."""

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.containers import TensorInfo
from harness.derived import IMATRIX_SEED, Written, parse, presets, written
from harness.errors import BadInput, UsageProblem
from harness.recorded import RecordedFile, collapsed, expanded, place, recorded, unlike_recorded


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Quantizer:
    """A stand-in for the pool and its oracle: writes a file that tells what was asked for, or refuses."""

    def __init__(self, refusal=None):
        self.asked = []
        self._refusal = refusal

    def get(self, _name):
        return self

    def call(self, op, params, *, timeout, expect):
        self.asked.append(params)
        if self._refusal:
            return SimpleNamespace(result={"rc": 1, "log": [self._refusal]})
        target = Path(params["target"])
        target.write_text(f"{op} {params['ftype']}")
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        return SimpleNamespace(result={"rc": 0, "log": [], "sha256": digest, "bytes": target.stat().st_size})


def make(name, pool):
    return written(parse(name), pool, offline=True, tell=lambda _line: None)


def test_one_file_has_two_names_or_two_files_have_one():
    assert parse("tiny@Q4_K") == parse("tiny@Q4_K_M")
    assert parse("tiny@IQ2_XS+imatrix") == parse("tiny@IQ2_XS")
    assert parse("tiny@IQ2_XS").imatrix
    assert parse("tiny@IQ3_XXS+imatrix").name == "tiny@IQ3_XXS+imatrix" != parse("tiny@IQ3_XXS").name
    assert len({parse(f"tiny@{preset}").name for preset in presets()}) == len(presets()) - 3


def test_a_preset_without_a_file_type_of_its_own_is_asked_for_by_number():
    recipe = parse("tiny@NVFP4")
    assert (recipe.ftype, recipe.overrides) == (7, (("attn|ffn", "ggml.nvfp4"),))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tiny@Q4_KM", "did you mean Q4_K_M"),
        ("tiny@q4_k_m", "did you mean Q4_K_M"),
        ("tiny@Q4_K_M+matrix", r"no preset is called Q4_K_M\+matrix"),
        ("tiny@", "there are: F32"),
        ("tinyy@Q4_0", "did you mean tiny"),
        ("tiny@Q4_0@Q8_0", "no preset is called"),
        ("tiny@Q4_0/../../x", "no preset is called"),
    ],
)
def test_a_name_with_a_typo_is_a_usage_problem_with_the_near_one(name, words):
    with pytest.raises(UsageProblem, match=words):
        parse(name)


def test_a_file_is_written_twice_or_a_damaged_one_is_used(cache):
    pool = Quantizer()
    first = make("tiny@IQ2_XS", pool)
    assert [asked["imatrix_seed"] for asked in pool.asked] == [IMATRIX_SEED]
    assert make("tiny@IQ2_XS", pool) == first
    assert len(pool.asked) == 1
    first.path.write_text("damaged")
    assert make("tiny@IQ2_XS", pool) == first
    assert len(pool.asked) == 2
    assert not list(cache.glob("derived/*part*"))


def test_another_question_is_answered_with_the_same_file(cache):
    pool = Quantizer()
    paths = {make(f"tiny@{name}", pool).path for name in ("IQ3_XXS", "IQ3_XXS+imatrix", "Q8_0", "NVFP4")}
    assert len(paths) == 4


def test_a_refusal_leaves_a_file_or_loses_the_quantizers_words(cache):
    pool = Quantizer("this quantization requires an imatrix!")
    with pytest.raises(UsageProblem, match=r"requires an imatrix!; there is demo:tiny@IQ3_XXS\+imatrix"):
        make("tiny@IQ3_XXS", pool)
    assert not list(cache.glob("derived/*.gguf"))


def test_the_file_of_another_build_goes_unseen():
    recipe = parse("tiny@Q4_K_M")
    entry = recorded("tiny")["Q4_K_M"]
    assert unlike_recorded(recipe, Written(Path("x"), entry.sha256, entry.bytes)) is None
    assert "another build" in unlike_recorded(recipe, Written(Path("x"), "0" * 64, 1))


def tensor(name, *shape):
    return TensorInfo(name, name.encode(), 0, "F32", "ggml.f32", shape, 0, 0)


TENSORS = (
    tensor("token_embd.weight", 4, 4),
    *(tensor(f"blk.{layer}.attn_v.weight", 4, 4) for layer in (0, 10, 2, 1, 3, 4, 5, 6, 7, 8, 9)),
    *(tensor(f"blk.{layer}.attn_norm.weight", 4) for layer in range(11)),
    tensor("output.weight", 4, 4),
)


def test_layers_are_counted_in_the_order_of_their_names():
    """blk.10 comes before blk.2 in a sorted list, and after blk.9 in the model."""
    types = {"rest": "q4_k", "attn_v": "q6_k*2 q4_k*8 q5_k", "output": "q6_k"}
    found = expanded(types, TENSORS)
    assert [found[f"blk.{layer}.attn_v.weight"] for layer in (0, 1, 2, 9, 10)] == [
        *("ggml.q6_k", "ggml.q6_k", "ggml.q4_k", "ggml.q4_k", "ggml.q5_k"),
    ]
    assert found["token_embd.weight"] == "ggml.q4_k"
    assert found["blk.3.attn_norm.weight"] == "ggml.f32"
    assert collapsed(found, TENSORS) == types


def test_words_that_do_not_fit_the_layers_are_stretched():
    with pytest.raises(BadInput, match="11 layers"):
        expanded({"rest": "q4_k", "attn_v": "q6_k*2 q4_k"}, TENSORS)


def test_a_recorded_file_is_neither_written_nor_refused():
    with pytest.raises(ValueError, match="wanted types"):
        RecordedFile(sha256="0", bytes=1)
    with pytest.raises(ValueError, match="wanted types"):
        RecordedFile(types={"rest": "q4_0"}, refused="no")


def test_a_name_loses_its_layer():
    assert place("blk.12.ffn_down_exps.weight") == ("ffn_down_exps", 12)
    assert place("output.weight") == ("output", None)
