"""The committed list of required cases: what it says, how it goes out of date, what is refused in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness.errors import BadInput, UsageProblem
from harness.evidence.required import FOLDER, differences, load_required, write_required
from harness.evidence.tests.made import CASES, DECODE, PRODUCT
from harness.rows.model import Dimension


def listed(tree: Path, family: str = "test.decode") -> Path:
    return tree / FOLDER / f"{family}.txt"


def test_what_is_written_reads_back_otherwise(tree: Path) -> None:
    required = load_required(tree)
    assert set(required.by_case) == {case.id for case in CASES}
    family, case = required.by_case["test.decode/ggml.q4_k/random/cpu"]
    assert (family.op, family.bound, family.files) == (
        "dequantize",
        "the same bits",
        ("cases/generators.py",),
    )
    assert (case.encoding, case.dimension, case.rows) == (
        "ggml.q4_k",
        Dimension.MATERIALIZE,
        ("QUANT-GGUF-Q4_K",),
    )
    assert differences(CASES, tree, whole=True) == ()
    assert write_required(CASES, tree) == ()


def test_a_case_that_leaves_the_code_is_not_missed(tree: Path) -> None:
    fewer = [case for case in CASES if case.axes != (("values", "special"),)]
    assert differences(fewer, tree) == (
        "test.decode/ggml.iq2_xxs/special/cpu: in the list and not in the code",
        "test.decode/ggml.q4_k/special/cpu: in the list and not in the code",
    )


def test_a_family_that_leaves_the_code_is_not_missed(tree: Path) -> None:
    assert differences(DECODE.cases(), tree) == ()
    (line,) = differences(DECODE.cases(), tree, whole=True)
    assert line.startswith("test.product: the whole family")


def test_a_new_case_a_new_family_and_changed_words_are_not_seen(tree: Path) -> None:
    more = dataclasses.replace(
        DECODE, axes={"values": ("random", "special", "ascending", "zero")}, bound="1e-3"
    )
    found = differences(more.cases(), tree)
    assert "test.decode: bound is '1e-3' in the code and 'the same bits' in the list" in found
    assert "test.decode/ggml.q4_k/zero/cpu: in the code and not in the list" in found
    listed(tree, "test.product").unlink()
    assert differences(PRODUCT.cases(), tree)[0].startswith("test.product: the family is in the code")


def test_a_case_moves_to_another_row_in_silence(tree: Path) -> None:
    moved = dataclasses.replace(DECODE, rows=lambda _: ("QUANT-GGUF-Q5_K",))
    found = differences(moved.cases(), tree)
    assert len(found) == 6
    assert "QUANT-GGUF-Q5_K" in found[0]
    assert "QUANT-GGUF-IQ2_XXS" in found[0]


def test_writing_one_family_drops_another(tree: Path) -> None:
    before = listed(tree, "test.product").read_text()
    assert write_required(dataclasses.replace(DECODE, bound="other").cases(), tree) == (listed(tree),)
    assert listed(tree, "test.product").read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"op": "dequantize"', '"op": 3', "line 1"),
        ('"family": "test.decode"', '"family": "test.other"', "line 1"),
        ("harness-required/1", "harness-required/9", "line 1"),
        ("\tMaterialize\t", "\tMaterialise\t", "line 2"),
        ("\tcpu\t", "\tcuda\t", "line 2"),
        ("/ascending/cpu\t", "/zzz/cpu\t", "line 3"),
        ("\tQUANT-GGUF-IQ2_XXS\n", "\t\n", "line 2"),
        ("\tggml.iq2_xxs\t", "\t", "line 2"),
    ],
)
def test_an_edit_of_the_list_that_makes_no_sense_is_read(tree: Path, old: str, new: str, named: str) -> None:
    path = listed(tree)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(BadInput, match=named) as refused:
        load_required(tree)
    assert refused.value.file == str(path)


def test_a_cut_or_empty_list_is_read(tree: Path) -> None:
    text = listed(tree).read_text()
    for content in (text[:-1], text.split("\n")[0] + "\n", ""):
        listed(tree).write_text(content)
        with pytest.raises(BadInput, match=r"test\.decode\.txt"):
            load_required(tree)


def test_one_case_counts_for_two_families(tree: Path) -> None:
    line = listed(tree).read_text().split("\n")[1]
    path = listed(tree, "test.product")
    head, *rest = path.read_text().rstrip("\n").split("\n")
    path.write_text("\n".join([head, *sorted([*rest, line]), ""]))
    with pytest.raises(BadInput, match=r"test\.decode\.txt does not hold"):
        load_required(tree)


def test_two_cases_share_an_id_or_have_no_row(tree: Path) -> None:
    first = next(DECODE.cases())
    with pytest.raises(UsageProblem, match="two cases"):
        write_required([first, first], tree)
    with pytest.raises(UsageProblem, match="no row"):
        write_required([dataclasses.replace(first, rows=())], tree)
    with pytest.raises(UsageProblem, match="no space"):
        write_required([dataclasses.replace(first, axes=(("values", "a b"),))], tree)
    with pytest.raises(UsageProblem, match="file's"):
        write_required([dataclasses.replace(first, family="../x")], tree)
    with pytest.raises(UsageProblem, match="differ in op, bound"):
        write_required([first, dataclasses.replace(first, axes=(("values", "x"),), bound="b")], tree)
