"""From evidence to cells: what the matrix shows for a tree, and what it may not be told."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from pathlib import Path

import jsonschema
import pytest

from harness.errors import BadInput
from harness.evidence.ledger import HEAD, LEDGER, append, read_ledger, sha256
from harness.evidence.promote import promote
from harness.evidence.required import FOLDER, write_required
from harness.evidence.tests.made import (
    CASES,
    DECODE,
    IQ2_XXS,
    PRODUCT,
    Q4_K,
    commit,
    evidence,
    make_run,
    on,
    passing,
    skip,
)
from harness.matrix import render
from harness.matrix.compute import compute
from harness.matrix.model import DimensionState, Matrix
from harness.matrix.states import State
from harness.paths import REPOSITORY
from harness.report.strict_json import dumps
from harness.rows.load import load_rows
from harness.rows.model import Dimension
from harness.verdicts import Verdict

M, C = Dimension.MATERIALIZE, Dimension.COMPUTE


def matrix_of(tree: Path, **options: date) -> Matrix:
    return compute(load_rows().values(), tree, **options)


def shown(tree: Path, row: str, dimension: Dimension = M, **options: date) -> DimensionState:
    return next(entry for entry in matrix_of(tree, **options).rows if entry.id == row).dimensions[dimension]


def cells(matrix: Matrix) -> dict[tuple[str, Dimension, str], State]:
    return {
        (row.id, dimension, backend): state
        for row in matrix.rows
        for dimension, found in row.dimensions.items()
        for backend, state in found.backends.items()
    }


def test_a_tree_without_evidence_claims_something(tree: Path) -> None:
    states = set(cells(matrix_of(tree)).values())
    assert states == {State.ABSENT}
    assert shown(tree, Q4_K).why == "cpu: 3 cases are required, none has evidence"
    assert shown(tree, "QUANT-GGUF-Q5_K").why == "cpu: no case is required of it yet"


def test_evidence_shows_in_other_cells_than_its_own(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    found = {cell: state for cell, state in cells(matrix_of(tree)).items() if state is not State.ABSENT}
    assert found == {
        (Q4_K, M, "cpu"): State.PASS,
        (IQ2_XXS, M, "cpu"): State.PASS,
        (Q4_K, C, "triton@interpreter"): State.EMULATED,
        (Q4_K, C, "triton@sm_90"): State.PASS,
    }
    assert shown(tree, Q4_K).state is State.PASS
    assert shown(tree, Q4_K, C).state is State.ABSENT


def test_one_character_of_a_unit_leaves_its_cells_or_turns_others(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    before = cells(matrix_of(tree))
    path = tree / "kernels" / "ggml" / "iq2_xxs" / "reference.py"
    path.write_text(path.read_text().replace("0.25", "0.26"))
    after = cells(matrix_of(tree))
    assert {cell for cell in before if before[cell] != after[cell]} == {(IQ2_XXS, M, "cpu")}
    found = shown(tree, IQ2_XXS)
    assert found.state is State.STALE
    assert found.why == "cpu: the code of test.decode has changed"
    assert found.evidence[0].outdated == ("the code of test.decode has changed",)


def test_one_character_of_shared_code_leaves_a_cell(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    with (tree / "cases" / "generators.py").open("a") as stream:
        stream.write("#")
    states = {state for state in cells(matrix_of(tree)).values() if state is not State.ABSENT}
    assert states == {State.STALE}


def test_a_new_case_or_family_leaves_a_pass(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    more = dataclasses.replace(DECODE, axes={"values": ("random", "special", "ascending", "zero")})
    write_required(more.cases(), tree)
    assert shown(tree, Q4_K).why == "cpu: other cases of test.decode are required (3 then, 4 now)"
    write_required(DECODE.cases(), tree)
    assert shown(tree, Q4_K).state is State.PASS
    write_required(dataclasses.replace(DECODE, name="test.second").cases(), tree)
    assert shown(tree, Q4_K).state is State.ABSENT
    assert shown(tree, Q4_K).why == "cpu: no evidence for the 3 cases of test.second"


def test_a_family_that_is_no_longer_required_still_passes(tree: Path) -> None:
    second = dataclasses.replace(DECODE, name="test.second")
    write_required(second.cases(), tree)
    commit(tree)
    promote(make_run(tree, passing(tree, [*CASES, *second.cases()])), tree)
    (tree / FOLDER / "test.second.txt").unlink()
    assert shown(tree, Q4_K).why == "cpu: test.second is no longer required"
    assert shown(tree, Q4_K).state is State.STALE


def repinned(tree: Path, **changes: object) -> None:
    """Write the ledger as if its evidence had been made at another pin."""
    ledger = read_ledger(tree)
    for name in (LEDGER, HEAD):
        (tree / name).unlink()
    source = ledger.records[0].source
    pins = {**source.pins, "llama_cpp.ops": source.pins["llama_cpp.ops"].model_copy(update=changes)}
    other = source.model_copy(update={"pins": pins})
    append([dataclasses.replace(record, source=other) for record in ledger.records], read_ledger(tree), tree)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": "1"}, "version was 1, is"),
        ({"worker": "0" * 64}, "the worker was 00000000, is"),
        ({"wheels": ("0" * 64,)}, "the wheel was 00000000, which is not pinned"),
    ],
)
def test_evidence_made_at_another_pin_passes(tree: Path, changes: dict[str, object], why: str) -> None:
    promote(make_run(tree, passing(tree)), tree)
    repinned(tree, **changes)
    found = shown(tree, Q4_K)
    assert found.state is State.STALE
    assert f"llama_cpp.ops: {why}" in found.why


def test_a_machine_without_the_device_erases_what_a_device_showed(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    skipped = [evidence(case, tree, Verdict.SKIP) for case in on("triton@sm_90")]
    done = promote(make_run(tree, [*passing(tree, on("cpu")), *skipped]), tree)
    assert len(done.added) == 1
    assert shown(tree, Q4_K, C).backends["triton@sm_90"] is State.PASS
    assert not promote(make_run(tree, passing(tree)), tree).added


def test_skips_without_evidence_show_nothing(tree: Path) -> None:
    promote(make_run(tree, [evidence(case, tree, Verdict.SKIP) for case in on("triton@sm_90")]), tree)
    assert shown(tree, Q4_K, C).backends["triton@sm_90"] is State.DEBT


def test_an_expired_skip_is_a_reason(tree: Path) -> None:
    first, *rest = [case for case in on("cpu") if Q4_K in case.rows]
    late = skip(first, kind="slow", expires="2031-05-01")
    promote(make_run(tree, [evidence(first, tree, Verdict.SKIP, skip=late), *passing(tree, rest)]), tree)
    assert shown(tree, Q4_K, today=date(2031, 5, 1)).state is State.DEBT
    assert shown(tree, Q4_K, today=date(2031, 5, 1)).why == "cpu: 1 skipped (slow): needs sm_90"
    expired = shown(tree, Q4_K, today=date(2031, 5, 2))
    assert (expired.state, expired.why) == (State.ABSENT, "cpu: a skip of kernels expired on 2031-05-01")


def test_a_failure_on_an_optional_backend_is_not_seen(tree: Path) -> None:
    entries = passing(tree, [case for case in CASES if case.backend != "triton@interpreter"])
    entries += [evidence(case, tree, Verdict.FAIL_VALUE) for case in on("triton@interpreter")]
    promote(make_run(tree, entries), tree)
    found = shown(tree, Q4_K, C)
    assert found.state is State.FAIL
    assert found.why == f"triton@interpreter: line 4: FAIL_VALUE in {on('triton@interpreter')[0].id}"


def test_an_alias_shows_other_states_than_its_target_and_is_counted_twice(tree: Path) -> None:
    preset = dataclasses.replace(
        PRODUCT,
        name="test.preset",
        op="dequantize",
        dimension=M,
        backends=("cpu",),
        rows=lambda _: ("QUANT-GGUF-PRESET-Q4_K_M",),
    )
    write_required(preset.cases(), tree)
    commit(tree)
    promote(make_run(tree, passing(tree, preset.cases())), tree)
    target, alias = (shown(tree, name) for name in ("QUANT-GGUF-PRESET-Q4_K_M", "QUANT-GGUF-PRESET-Q4_K"))
    assert target.state is State.PASS
    assert alias == target
    assert matrix_of(tree).counts[M][State.PASS] == 1


def test_an_umbrella_or_retired_row_claims_something(tree: Path) -> None:
    for row in ("QUANT-GGUF-COMPUTE", "QUANT-GGUF-PRESETS", "QUANT-INT8-BLOCK"):
        for dimension in Dimension:
            found = shown(tree, row, dimension)
            assert (found.state, found.backends) == (State.NOT_APPLICABLE, {})
            assert found.why


def test_a_pass_typed_by_hand_is_shown(tree: Path) -> None:
    promote(make_run(tree, passing(tree, on("cpu"))), tree)
    text = (tree / LEDGER).read_text()
    before = text.split("\n")[2]
    typed = json.loads(before) | {"row": "QUANT-GGUF-Q5_K", "prev": sha256(before)}
    (tree / LEDGER).write_text(text + json.dumps(typed, separators=(",", ":")) + "\n")
    with pytest.raises(BadInput, match="line 4"):
        matrix_of(tree)


def test_a_pass_typed_with_its_chain_is_shown_where_nothing_is_required(tree: Path) -> None:
    promote(make_run(tree, passing(tree, on("cpu"))), tree)
    ledger = read_ledger(tree)
    record = ledger.records[1]
    typed = [
        dataclasses.replace(
            record, lines=tuple(line.model_copy(update={"row": row}) for line in record.lines)
        )
        for row in ("QUANT-GGUF-Q5_K", IQ2_XXS)
    ]
    append(typed, ledger, tree)
    assert shown(tree, "QUANT-GGUF-Q5_K").state is State.ABSENT
    assert shown(tree, IQ2_XXS).state is State.STALE


def test_the_document_does_not_fit_its_schema(tree: Path) -> None:
    failing = evidence(CASES[0], tree, Verdict.FAIL_VALUE, max_abs=float("inf"))
    entries = [*passing(tree, CASES[1:]), failing]
    promote(make_run(tree, entries), tree)
    document = json.loads(dumps(matrix_of(tree).model_dump(mode="json", by_alias=True)))
    schema = json.loads((REPOSITORY / "docs" / "schemas" / "matrix.schema.json").read_text())
    jsonschema.validate(document, schema)
    row = next(row for row in document["rows"] if row["id"] == Q4_K)
    assert {"id", "surface", "item", "dimensions"} <= set(row)
    assert set(row["dimensions"]) == {name.value for name in Dimension}
    assert {"state", "backends", "evidence"} <= set(row["dimensions"]["Materialize"])
    assert row["dimensions"]["Materialize"]["evidence"][0]["worst"]["max_abs"] == "Infinity"
    document["rows"][0]["dimensions"]["Materialize"]["state"] = "Y"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_a_line_of_evidence_does_not_fit_its_schema(tree: Path) -> None:
    schema = json.loads((REPOSITORY / "docs" / "schemas" / "evidence.schema.json").read_text())
    for entry in (
        evidence(CASES[0], tree),
        evidence(CASES[0], tree, Verdict.FAIL_NONFINITE, max_abs=float("nan")),
        evidence(CASES[0], tree, Verdict.SKIP),
    ):
        jsonschema.validate(json.loads(entry.line()), schema)


def test_a_page_runs_what_a_ledger_says(tree: Path) -> None:
    bad = "<script>x</script> | y"
    entries = [
        evidence(case, tree, Verdict.SKIP, skip=skip(case, kind="slow", reason=bad)) for case in on("cpu")
    ]
    promote(make_run(tree, entries), tree)
    matrix = matrix_of(tree)
    page = render.html(matrix)
    assert "<script>" not in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    lines = [line for line in render.markdown(matrix).splitlines() if line.startswith("| QUANT-")]
    assert len(lines) == len(matrix.rows)
    assert all(line.count("|") == 7 for line in lines)


def test_a_table_hides_what_a_backend_shows(tree: Path) -> None:
    promote(make_run(tree, passing(tree)), tree)
    table = next(table for table in render.tables(matrix_of(tree)) if str(table.title) == "GGUF encodings")
    names = [str(cell) for cell in table.columns[0].cells]
    compute_cells = [str(cell) for cell in table.columns[3].cells]
    assert compute_cells[names.index(Q4_K)] == "absent\ntriton@sm_90 pass\ntriton@interpreter emulated"
