"""Edits of the ledger by hand, at every kind of place: each is refused with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.evidence import ledger as ledger_module
from harness.evidence.ledger import GENESIS, HEAD, LEDGER, append, compact, read_ledger, sha256
from harness.evidence.ledger_lines import Line
from harness.evidence.promote import promote
from harness.evidence.tests.made import CASES, evidence, make_run, on, passing
from harness.paths import REPOSITORY


@pytest.fixture
def filled(tree: Path) -> Path:
    """A tree whose ledger holds the line of a run and one for each of three cells."""
    cases = [case for case in CASES if case.backend != "triton@interpreter"]
    promote(make_run(tree, passing(tree, cases)), tree)
    assert read_ledger(tree).head.lines == 4
    return tree


def lines(tree: Path) -> list[str]:
    return (tree / LEDGER).read_text().split("\n")[:-1]


def put(tree: Path, texts: list[str]) -> None:
    (tree / LEDGER).write_text("".join(f"{text}\n" for text in texts))


def refused(tree: Path) -> str:
    with pytest.raises(BadInput) as error:
        read_ledger(tree)
    assert error.value.file.endswith(("ledger.jsonl", "head.json"))
    assert error.value.exit_code == 2
    return str(error.value)


def test_the_chain_does_not_begin_at_genesis_or_skips_a_line(filled: Path) -> None:
    texts = lines(filled)
    prevs = [json.loads(text)["prev"] for text in texts]
    assert prevs == [GENESIS, *map(sha256, texts[:-1])]
    head = json.loads((filled / HEAD).read_text())
    assert (head["lines"], head["sha256"]) == (4, sha256(texts[-1]))


def more_passes(text: str) -> str:
    """One digit more: of the counted passes, or of the harness version in the run's line."""
    changed = text.replace('"PASS":3', '"PASS":9').replace('"PASS":2', '"PASS":9')
    return changed.replace('"harness":"0', '"harness":"9')


EDITS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "a digit in the first line": (lambda t: [more_passes(t[0]), *t[1:]], r"line 2, prev.*line 1 was edited"),
    "a digit in the middle": (
        lambda t: [*t[:2], more_passes(t[2]), t[3]],
        r"line 4, prev.*line 3 was edited",
    ),
    "a digit in the last line": (lambda t: [*t[:3], more_passes(t[3])], r"line 4.*last line was edited"),
    "a blank in the middle": (lambda t: [t[0], t[1] + " ", *t[2:]], r"line 3, prev.*line 2 was edited"),
    "the first line removed": (lambda t: t[1:], r"line 1, prev.*first lines were removed"),
    "a middle line removed": (lambda t: [t[0], *t[2:]], r"line 2, prev.*a line between them was removed"),
    "the last line removed": (lambda t: t[:-1], r"line 4: got nothing.*tail was cut off"),
    "everything removed": (lambda _: [], r"line 1: got nothing"),
    "two lines swapped": (lambda t: [t[0], t[2], t[1], t[3]], r"line 2, prev.*moved or inserted"),
    "a line repeated": (lambda t: [*t[:2], t[1], *t[2:]], r"line 3, prev.*moved or inserted"),
    "a forged line in the middle": (
        lambda t: [*t[:2], forged(t[1]), *t[2:]],
        r"line 4, prev.*moved or inserted",
    ),
    "a forged line at the end": (lambda t: [*t, forged(t[-1])], r"line 5.*promote did not write"),
    "the last line forged": (lambda t: [*t[:-1], forged(t[-2])], r"line 4.*last line was edited"),
    "its prev edited": (lambda t: [*t[:3], with_prev(t[3], "f" * 64)], r"line 4, prev: got ffff"),
    "a word that is no digest": (lambda t: [with_prev(t[0], "none"), *t[1:]], r"line 1, prev: got none"),
    "a state typed in": (
        lambda t: [t[0].replace('{"prev"', '{"state":"pass","prev"'), *t[1:]],
        r"line 1, state",
    ),
    "a Y typed in": (
        lambda t: [*t, '{"row":"QUANT-GGUF-Q5_K","Materialize":"Y"}'],
        r"line 5, prev.*got nothing",
    ),
    "a word that is no JSON": (lambda t: [*t[:1], "QUANT-GGUF-Q5_K Y", *t[1:]], r"line 2"),
    "an empty line": (lambda t: [*t[:1], "", *t[1:]], r"line 2"),
}


def forged(before: str) -> str:
    """What a careful hand writes: a valid line for another row, chained to the line before it."""
    line = Line.model_validate_json(before)
    return line.model_copy(update={"prev": sha256(before), "row": "QUANT-GGUF-Q5_K"}).text()


def with_prev(text: str, prev: str) -> str:
    return json.dumps({**json.loads(text), "prev": prev}, separators=(",", ":"))


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_by_hand_is_believed(filled: Path, edit: str) -> None:
    change, wanted = EDITS[edit]
    put(filled, change(lines(filled)))
    assert re.search(wanted, refused(filled)), refused(filled)


def test_one_edited_character_anywhere_is_believed(filled: Path) -> None:
    data = (filled / LEDGER).read_bytes()
    for place in range(0, len(data), 97):
        changed = bytearray(data)
        changed[place] ^= 1
        (filled / LEDGER).write_bytes(changed)
        with pytest.raises(BadInput, match=r"ledger\.jsonl"):
            read_ledger(filled)


def test_a_cut_in_the_middle_of_a_line_is_believed(filled: Path) -> None:
    data = (filled / LEDGER).read_bytes()
    (filled / LEDGER).write_bytes(data[:-20])
    assert "line 4" in refused(filled)


def test_a_forged_line_with_a_forged_head_counts_more_than_was_required(filled: Path) -> None:
    texts = lines(filled)
    head = json.loads((filled / HEAD).read_text())
    texts[-1] = more_passes(texts[-1])
    put(filled, texts)
    (filled / HEAD).write_text(json.dumps({**head, "sha256": sha256(texts[-1])}))
    assert re.search(r"line 4, verdicts: got 9 verdicts, wanted one for each of the 2", refused(filled))


def test_a_forged_line_with_a_forged_head_stands_without_a_run(filled: Path) -> None:
    texts = lines(filled)
    typed = Line.model_validate_json(texts[-1]).model_copy(
        update={"prev": sha256(texts[-1]), "run": "0" * 64}
    )
    put(filled, [*texts, typed.model_copy(update={"row": "QUANT-GGUF-Q5_K"}).text()])
    head = json.loads((filled / HEAD).read_text())
    (filled / HEAD).write_text(json.dumps({**head, "lines": 5, "sha256": sha256(lines(filled)[-1])}))
    assert "line 5, field run: got 0000" in refused(filled) or "line 5, run: got 0000" in refused(filled)


@pytest.mark.parametrize(("name", "wanted"), [(HEAD, "head.json"), (LEDGER, "ledger.jsonl")])
def test_half_of_the_ledger_is_enough(filled: Path, name: Path, wanted: str) -> None:
    (filled / name).unlink()
    assert wanted in refused(filled)


def test_an_edited_head_is_believed(filled: Path) -> None:
    head = json.loads((filled / HEAD).read_text())
    for change in ({"lines": 3}, {"lines": 5}, {"sha256": "0" * 64}, {"schema": "x"}, {"more": 1}):
        (filled / HEAD).write_text(json.dumps({**head, **change}))
        assert refused(filled)


def test_compacting_loses_the_newest_line_of_a_cell_or_the_chain(filled: Path) -> None:
    first = read_ledger(filled)
    worse = [evidence(case, filled, max_ulp=1, max_abs=1e-8) for case in on("cpu")]
    promote(make_run(filled, worse), filled)
    before = read_ledger(filled)
    assert before.head.lines == 7
    after = compact(before, filled)
    assert after.head.lines == 5
    assert after.head.before is not None
    assert (after.head.before.lines, after.head.before.sha256) == (7, before.head.sha256)
    said = {cell: {d: r.says() for d, r in found.items()} for cell, found in after.newest().items()}
    assert said == {cell: {d: r.says() for d, r in found.items()} for cell, found in before.newest().items()}
    assert json.loads(lines(filled)[0])["prev"] == before.head.sha256
    assert first.head.before is None


def test_the_ledger_grows_past_its_limit(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_ledger(filled)
    monkeypatch.setattr(ledger_module, "LARGEST", len((filled / LEDGER).read_bytes()) + 100)
    with pytest.raises(BadInput, match=r"size.*--compact"):
        append(before.records, before, filled)
    assert read_ledger(filled) == before


def test_the_committed_ledger_is_broken_or_larger_than_five_megabytes() -> None:
    assert ledger_module.LARGEST == 5_000_000
    read = read_ledger(REPOSITORY)
    assert sum(len(text) + 1 for text in read.texts) < ledger_module.LARGEST
