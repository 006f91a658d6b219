"""Whole files of every preset: which type each tensor gets, what of it we decode, and what the quantizer refuses."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from cases.ggml import presets
from cases.ggml.container import can_read, our_reading, their_reading
from cases.ggml.preset_table import table
from cases.ggml.presets import DECODE, DECODE_SLOW, SOURCES, TYPES, TYPES_SLOW, files, is_quick, refused
from cases.ggml.whole_file import judge_file
from harness.containers import TensorInfo, open_checkpoint
from harness.demo import PREFIX, resolve_checkpoint
from harness.derived import MARK, PIN, ROW_PREFIX, Recipe, parse, written
from harness.derived import presets as preset_names
from harness.errors import UsageProblem
from harness.evidence.case import Case
from harness.paths import REPOSITORY
from harness.plugin.opinions import judge_of, own_judge
from harness.plugin.verdict import CaseVerdict
from harness.recorded import expanded, recorded, unlike_recorded
from harness.rows.load import load_rows
from oracles.pool import Oracle, Pool

READER = "harness/containers/gguf.py:open_gguf"
JUDGES = (PIN, "llama_cpp.ops", "formats")
"""Who wrote the file, the other build of the same engine, and the independent opinion."""


def path_of(name: str, pool: Pool) -> Path:
    """A preset's file, written on first use."""
    return written(parse(name), pool, offline=False, tell=print).path


@functools.cache
def tensors_of(source: str) -> tuple[TensorInfo, ...]:
    """The tensors of a source: their names and shapes are those of each file that is made from it."""
    where = resolve_checkpoint(f"{PREFIX}{source}", offline=False, tell=print)
    with open_checkpoint(where) as checkpoint:
        return checkpoint.tensors


def expected_types(recipe: Recipe) -> dict[str, str]:
    """Tensor -> encoding, as it was recorded."""
    types = recorded(recipe.source)[recipe.variant].types
    assert types is not None
    return expanded(types, tensors_of(recipe.source))


def expected_reading(recipe: Recipe, engines: dict[str, object]) -> dict[str, object]:
    """The engine's reading, with the tensors and encodings that were recorded in place of its own."""
    others = {key: value for key, value in engines.items() if not key.endswith(".encoding")}
    return others | {f"tensor {name}.encoding": word for name, word in expected_types(recipe).items()}


@pytest.mark.cases(TYPES, TYPES_SLOW)
def test_a_tensor_of_a_preset_has_another_type_than_the_rules_give_it(
    case: Case, verdict: CaseVerdict, oracle_pool: Pool
) -> None:
    recipe = parse(case.axis("file"))
    path = path_of(recipe.name, oracle_pool)
    with open_checkpoint(path) as checkpoint:
        held = {tensor.encoding for tensor in checkpoint.tensors}
        assert checkpoint.value("general.file_type") == recipe.ftype
    readers = [oracle_pool.get(name) for name in JUDGES if all(can_read(name, word or "") for word in held)]
    readings = {reader.name: their_reading(reader.describe(path)) for reader in readers}
    readings["recorded"] = expected_reading(recipe, readings[PIN])
    table = own_judge("recorded", [presets.DERIVED / f"{recipe.source}.yaml"])
    verdict.fields(our_reading(path), readings, [*map(judge_of, readers), table], kernel=READER)


@pytest.mark.cases(DECODE, DECODE_SLOW)
def test_a_tensor_of_a_preset_decodes_to_other_values(
    case: Case, verdict: CaseVerdict, oracle_pool: Pool
) -> None:
    with open_checkpoint(path_of(case.axis("file"), oracle_pool)) as checkpoint:
        whole = judge_file(checkpoint, [oracle_pool.get(name) for name in JUDGES])
    result = np.frombuffer(whole.digest, np.uint8)
    verdict.record(whole.judged, kernel=whole.kernel, device="cpu", name="reference", result=result)


@pytest.mark.skip_case(
    row="QUANT-GGUF-PRESET-Q4_K_M",
    kind="platform",
    when="not_x86_64",
    owner="@cases",
    reason="the digests were recorded on x86_64, and compilers for other CPUs contract products and sums",
)
@pytest.mark.parametrize("name", [name for name in files() if is_quick(name)])
def test_another_build_of_the_quantizer_goes_unseen(name: str, oracle_pool: Pool) -> None:
    recipe = parse(name)
    found = written(recipe, oracle_pool, offline=False, tell=print)
    assert unlike_recorded(recipe, found) is None
    assert recorded(recipe.source)[recipe.variant].bytes == found.bytes


@pytest.mark.parametrize("name", [name for name in files() if not is_quick(name)])
def test_the_types_of_a_file_that_is_too_long_to_write_have_changed(name: str, oracle_pool: Pool) -> None:
    recipe = parse(name)
    assert {
        entry["name"]: entry["to"] for entry in dry_run(recipe, oracle_pool)["tensors"]
    } == expected_types(recipe)


@pytest.mark.parametrize("name", refused())
def test_a_file_that_the_quantizer_refuses_is_expected_or_refused_without_its_words(
    name: str, oracle_pool: Pool
) -> None:
    recipe = parse(name)
    with pytest.raises(UsageProblem) as caught:
        written(recipe, oracle_pool, offline=False, tell=print)
    assert refused()[name] in str(caught.value)
    assert ("+imatrix" in str(caught.value)) == ("imatrix" in refused()[name])


def quantize(pool: Pool, target: Path, source: str = "tiny", **params: object) -> dict[str, object]:
    """The quantizer itself, without a recipe."""
    where = resolve_checkpoint(f"{PREFIX}{source}", offline=False, tell=print)
    request = {"source": str(where), "target": str(target), **params}
    return pool.get(PIN).call("quantize_model", request, expect={}).result


def dry_run(recipe: Recipe, pool: Pool, **params: object) -> dict[str, object]:
    """What the quantizer says that it would store."""
    where = resolve_checkpoint(f"{PREFIX}{recipe.source}", offline=False, tell=print)
    request = {"source": str(where), **recipe.params(), **params}
    answer = pool.get(PIN).call("quantize_types", request, expect={})
    assert answer.result["rc"] == 0, answer.result["log"]
    return answer.result


def test_a_file_type_that_the_quantizer_does_not_have_is_thought_to_be_written(
    oracle_pool: Pool, tmp_path: Path
) -> None:
    """NVFP4 has a number and no default type: only an override by name stores it."""
    result = quantize(oracle_pool, tmp_path / "out.gguf", ftype=39)
    assert result["rc"]
    assert result["log"][-1].endswith("invalid output file type 39")
    assert not (tmp_path / "out.gguf").exists()


def test_quantized_tensors_are_quantized_again_unasked(oracle_pool: Pool, tmp_path: Path) -> None:
    result = quantize(oracle_pool, tmp_path / "out.gguf", "smollm2", ftype=7)
    assert result["rc"]
    assert result["log"][-1].endswith("requantizing from type q4_1 is disabled")


NEED_IMPORTANCE = ("IQ3_XXS", "IQ3_XS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M", "Q2_K_S")


@pytest.mark.parametrize("preset", preset_names())
def test_a_missing_importance_matrix_is_noticed_too_late_or_for_no_reason(
    preset: str, oracle_pool: Pool, tmp_path: Path
) -> None:
    """The quantizer's list is wider than ggml's: IQ3_XXS, IQ2_S and IQ1_M, and Q2_K in a file of type Q2_K_S."""
    recipe = parse(f"tiny{MARK}{preset}")
    wanted = recipe.preset in NEED_IMPORTANCE
    assert dry_run(recipe, oracle_pool, imatrix_seed=None)["needs_imatrix"] == wanted
    if wanted:
        result = quantize(oracle_pool, tmp_path / "out.gguf", ftype=recipe.ftype)
        assert result["rc"]
        assert any("offending tensor: blk.0." in line for line in result["log"])


def stored(name: str) -> set[str]:
    return set(expected_types(parse(name)).values()) - {"ggml.f32"}


def test_the_preset_iq2_s_is_thought_to_hold_iq2_s() -> None:
    assert "ggml.iq2_xs" in stored("tiny@IQ2_S")
    assert "ggml.iq2_s" not in stored("tiny@IQ2_S") | stored("smollm2@IQ2_S")
    assert "ggml.iq2_s" in stored("tiny@IQ2_M")


def test_mxfp4_moe_is_thought_to_hold_mxfp4_in_a_model_without_experts() -> None:
    assert stored("tiny@MXFP4_MOE") == stored("smollm2@MXFP4_MOE") == {"ggml.q8_0"}
    types = expected_types(parse("tiny-moe@MXFP4_MOE"))
    assert {name for name, word in types.items() if word == "ggml.mxfp4"} == {
        name for name in types if "_exps" in name
    }


def test_iq3_xxs_is_thought_to_hold_iq3_without_an_importance_matrix() -> None:
    assert not [word for word in stored("smollm2@IQ3_XXS") if "iq3" in word]
    assert "ggml.iq3_xxs" in stored("smollm2@IQ3_XXS+imatrix")


def test_an_importance_matrix_is_thought_to_leave_the_types_alone() -> None:
    assert "ggml.q4_1" in stored("smollm2@Q4_0+imatrix") - stored("smollm2@Q4_0")


def test_another_name_of_a_preset_is_another_file() -> None:
    aliases = {
        row.id: row.alias_of for row in load_rows().values() if row.alias_of and row.id.startswith(ROW_PREFIX)
    }
    assert {name.removeprefix(ROW_PREFIX) for name in aliases} == {"Q3_K", "Q4_K", "Q5_K"}
    for name, target in aliases.items():
        recipe = parse(f"tiny{MARK}{name.removeprefix(ROW_PREFIX)}")
        assert recipe == parse(f"tiny{MARK}{target.removeprefix(ROW_PREFIX)}")
        assert recipe.row == target


def test_a_file_type_has_another_name_in_the_engine(oracle_pool: Pool) -> None:
    names = oracle_pool.get(PIN).details["ftypes"]
    for preset in preset_names():
        number = load_rows()[parse(f"tiny{MARK}{preset}").row].preset.ftype
        said = names[str(number)]
        letters = {"S": "Small", "M": "Medium", "L": "Large"}
        mix = (
            f"{preset[:-2]} - {letters[preset[-1]]}"
            if preset[-2:-1] == "_" and preset[-1] in letters
            else preset
        )
        usual = {"F32": "all F32", "Q2_K": "Q2_K - Medium", "MXFP4_MOE": "MXFP4 MoE", "IQ3_M": "IQ3_S mix"}
        usual |= {alias: f"{alias} - Medium" for alias in ("Q3_K", "Q4_K", "Q5_K")}
        wanted = usual.get(preset, preset if preset.startswith("IQ") else mix)
        assert said == wanted or said.startswith(f"{wanted} - "), (preset, said)


@pytest.mark.parametrize("source", ["tiny", "tiny-moe"])
def test_llama_cpp_does_not_load_a_model_of_ours(source: str, oracle_pool: Pool) -> None:
    where = resolve_checkpoint(f"{PREFIX}{source}", offline=False, tell=print)
    found = oracle_pool.get(PIN).call("load", {"path": str(where)}, expect={}).result
    assert (found["layers"], found["embedding"], found["vocabulary"]) == (2, 256, 512)
    with open_checkpoint(where) as checkpoint:
        weights = sum(int(np.prod(tensor.shape)) for tensor in checkpoint.tensors)
    assert found["parameters"] == weights


def test_a_preset_is_recorded_for_no_file() -> None:
    owners = {parse(name).row for name in files() if is_quick(name)}
    leaves = {row.id for row in load_rows().values() if row.preset is not None and row.claimable}
    assert owners == leaves
    assert set(presets.QUICK) <= set(recorded("smollm2"))
    assert {source for source in SOURCES if not recorded(source)} == set()


def test_the_documented_table_says_otherwise_than_the_record() -> None:
    lines = (REPOSITORY / "docs" / "presets.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in table() if line not in lines] == []


def same_on_both(
    op: str, encoding: str, request: dict[str, object], arrays: dict[str, np.ndarray], pool: Pool
) -> None:
    first, second = (
        pool.get(name).call(op, {"encoding": encoding, **request}, arrays).arrays for name in JUDGES[:2]
    )
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.tobytes() == second[name].tobytes(), (op, encoding)


def both_have(op: str, pool: Pool) -> list[str]:
    model, ops = (pool.get(name) for name in JUDGES[:2])
    assert model.ops[op] == ops.ops[op]
    return [
        encoding for encoding in ops.ops[op] if model.supports(op, encoding) and ops.supports(op, encoding)
    ]


def blocks_of(oracle: Oracle, encoding: str, rows: int) -> tuple[int, int]:
    elems, size = oracle.details["blocks"][encoding]
    columns = max(256, elems)
    return columns, rows * columns // elems * size


SEARCHED = frozenset({"ggml.iq1_s", "ggml.iq1_m", "ggml.iq2_xs", "ggml.iq2_s"})
"""Encodings whose quantizer builds tables for seconds at its first use in a process."""


def same_quantized(encoding: str, values: np.ndarray, importance: np.ndarray, pool: Pool) -> None:
    """Without an importance matrix where it can be left out, and with one."""
    if encoding not in pool.get(PIN).details["needs_imatrix"]:
        same_on_both("quantize", encoding, {}, {"values": values}, pool)
    same_on_both("quantize", encoding, {}, {"values": values, "imatrix": importance}, pool)


def test_the_two_builds_of_llama_cpp_decode_otherwise(oracle_pool: Pool) -> None:
    rng = np.random.default_rng(11)
    encodings = both_have("dequantize", oracle_pool)
    assert len(encodings) >= 29
    for encoding in encodings:
        columns, size = blocks_of(oracle_pool.get(PIN), encoding, 64)
        data = {"data": rng.integers(0, 256, size, dtype=np.uint8)}
        same_on_both("dequantize", encoding, {"shape": [64, columns]}, data, oracle_pool)


def test_the_two_builds_of_llama_cpp_quantize_otherwise(oracle_pool: Pool) -> None:
    rng = np.random.default_rng(12)
    values = rng.standard_normal((8, 512), dtype=np.float32)
    importance = rng.random(512, dtype=np.float32) + np.float32(0.5)
    for encoding in both_have("quantize_activation", oracle_pool):
        same_on_both("quantize_activation", encoding, {}, {"values": values}, oracle_pool)
    for encoding in set(both_have("quantize", oracle_pool)) - SEARCHED:
        same_quantized(encoding, values, importance, oracle_pool)


@pytest.mark.nightly(
    reason="each process first builds search tables, up to 15 seconds in each of two engines"
)
@pytest.mark.parametrize("encoding", sorted(SEARCHED))
def test_the_two_builds_of_llama_cpp_search_otherwise(encoding: str, oracle_pool: Pool) -> None:
    rng = np.random.default_rng(13)
    values = rng.standard_normal((8, 512), dtype=np.float32)
    same_quantized(encoding, values, rng.random(512, dtype=np.float32) + np.float32(0.5), oracle_pool)
