"""What a new format writes, what it refuses, and that it leaves nothing behind when it fails."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.audit.unfinished import find
from harness.drift.retire import retire
from harness.errors import BadInput, UsageProblem
from harness.newformat.parts import PARTS
from harness.newformat.plan import plan
from harness.newformat.request import request
from harness.newformat.tests.conftest import NF4, REQUESTS, begin, contents, wanted
from harness.newformat.write import write
from harness.paths import REPOSITORY
from harness.rows.load import load_rows
from harness.tests.conftest import run_harness
from kernels.units import load_units

every_request = pytest.mark.parametrize("which", REQUESTS)
OURS = "harness/rows/data/ours.yaml"
ORDER = "order: 9\n"


@every_request
def test_a_part_of_a_format_is_neither_there_nor_missed(tree: Path, which: str) -> None:
    begun = begin(tree, which)
    said = {finding.message.split(": ")[1] for finding in find(tree)}
    expected = {part.name for part in PARTS[begun.kind]}
    expected |= set() if begun.row_given else {"row"}
    expected -= {"cuda"} if begun.block_elems % 32 else set()
    # The families of an encoding are complete without a word of their own, once what they call is.
    expected -= {"cases"} if begun.kind == "encoding" else set()
    assert said == expected


@every_request
def test_something_that_was_written_is_not_taken_away_with_the_format(tree: Path, which: str) -> None:
    begun = wanted(which)
    found = plan(begun, tree)
    write(found, tree)
    _, findings = retire(tree, begun.format)
    listed = {place.split(":")[0] for finding in findings for place in finding.evidence}
    left = {path for path in found.new | found.changed if not path.startswith(f"{found.folder}/")}
    assert left - listed == set()
    assert begun.kind == "method" or f"{found.folder}/" in listed


@every_request
def test_a_written_file_cannot_be_read(tree: Path, which: str) -> None:
    begun = wanted(which)
    found = plan(begun, tree)
    write(found, tree)
    for path in found.new | found.changed:
        text = (tree / path).read_text(encoding="utf-8")
        assert "$" not in text, path
        if path.endswith(".py"):
            ast.parse(text)
        elif path.endswith(".yaml"):
            assert yaml.safe_load(text), path
    assert begun.row in load_rows(tree / "harness/rows/data")
    assert begun.kind == "method" or begun.format in load_units(tree / "kernels")


@every_request
def test_a_dry_run_writes_or_shows_something_else(tree: Path, which: str) -> None:
    options = {f"--{name.replace('_', '-')}": value for name, value in REQUESTS[which].items()}
    name = options.pop("--name")
    before = contents(tree)
    arguments = [str(word) for option in options.items() for word in option]
    dry = run_harness("new-format", name, *arguments, "--into", tree, "--dry-run")
    assert dry.status == 0
    assert contents(tree) == before
    real = run_harness("new-format", name, *arguments, "--into", tree)
    assert real.status == 0
    assert real.out.splitlines()[1:-1] == dry.out.splitlines()[1:]
    written = {path for path, content in contents(tree).items() if before.get(path) != content}
    names = {path.rpartition("/")[2] for path in written if (tree / path).is_file()}
    assert names == {_file_of(line) for line in dry.out.splitlines()[1:] if not line.endswith("/")}


def _file_of(line: str) -> str:
    return line.strip().removeprefix("+ ").split()[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "nf4"}, "dialect ''"),
        ({"name": "bmb.nf4"}, "did you mean bnb"),
        ({"name": "bnb.NF4"}, "name 'NF4': wanted lower-case letters"),
        ({"name": "bnb.nf4/.."}, "name 'nf4/..'"),
        ({"name": "bnb.\x1b[31m"}, r"\\x1b\[31m"),
        ({"name": "bnb."}, "name ''"),
        ({"name": "bnb.f16"}, "taken by the number type"),
        ({"name": "ggml.tables"}, "taken by lookup tables"),
        ({"dialect": "ggml"}, "its dialect is bnb, --dialect says ggml"),
        ({"block_elems": None}, "--block-elems: got nothing"),
        ({"block_elems": 0}, "--block-elems: got 0"),
        ({"block_bytes": -36}, "--block-bytes: got -36"),
        ({"block_bytes": 1 << 40}, "--block-bytes: got 1099511627776"),
        ({"kind": "method"}, "a method has no block of its own"),
        ({"row": "bnb"}, "--row bnb: wanted QUANT-"),
    ],
)
def test_a_request_that_means_nothing_is_honoured(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        request(**(NF4 | change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "ggml.q4_0", "row": None}, "kernels/ggml/q4_0 is there already"),
        ({"row": "QUANT-AWQ"}, r"its encodings are awq\.uint4, and not bnb\.nf4"),
        ({"name": "ggml.q8_k_s", "row": "QUANT-GGUF-PRESETS"}, "its encodings are none"),
    ],
)
def test_a_name_or_a_row_of_somebody_else_is_taken(tree: Path, change: dict[str, Any], said: str) -> None:
    before = contents(tree)
    with pytest.raises(UsageProblem, match=said):
        plan(request(**(NF4 | change)), tree)
    assert contents(tree) == before


def test_a_format_is_begun_twice(tree: Path) -> None:
    begin(tree, "an encoding")
    before = contents(tree)
    ran = run_harness("new-format", "bnb.nf4", "--block-elems", 64, "--block-bytes", 36, "--into", tree)
    assert (ran.status, ran.out) == (2, "")
    assert "kernels/bnb/nf4 is there already" in ran.err
    assert contents(tree) == before


def test_another_tree_is_written_into(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="has no folder kernels"):
        plan(wanted("an encoding"), tmp_path)


def test_a_file_that_came_in_between_is_overwritten_or_half_a_format_stays(tree: Path) -> None:
    found = plan(wanted("an encoding"), tree)
    (tree / "cases/units/test_bnb_nf4.py").write_text("mine")
    before = contents(tree)
    with pytest.raises(UsageProblem, match=r"test_bnb_nf4\.py: File exists; nothing was written"):
        write(found, tree)
    assert contents(tree) == before


@pytest.mark.parametrize("failing", range(4))
def test_a_full_disk_or_an_interrupt_leaves_half_a_format(
    tree: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    begin(tree, "a method")  # so that there is a row file to be added to
    found = plan(wanted("an encoding of ggml"), tree)
    before = contents(tree)
    steps = 0

    def step(original: Any) -> Any:
        def counted(self: Path, *arguments: Any, **options: Any) -> Any:
            nonlocal steps
            if steps == failing:
                raise KeyboardInterrupt
            steps += 1
            return original(self, *arguments, **options)

        return counted

    with monkeypatch.context() as patched:
        for name in ("rename", "replace"):
            patched.setattr(Path, name, step(getattr(Path, name)))
        patched.setattr(Path, "open", _only_new(step(Path.open), Path.open))
        with pytest.raises(KeyboardInterrupt):
            write(found, tree)
    assert contents(tree) == before


def _only_new(counted: Any, original: Any) -> Any:
    def opened(self: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        return (counted if mode == "xb" else original)(self, mode, *arguments, **options)

    return opened


def test_a_second_row_changes_the_first(tree: Path) -> None:
    begin(tree, "a method")
    first = (tree / OURS).read_text()
    begin(tree, "an encoding of ggml")
    assert (tree / OURS).read_text().startswith(first)
    rows = load_rows(tree / "harness/rows/data")
    assert rows["QUANT-GGUF-Q7_X"].encodings == ("ggml.q7_x",)
    assert rows["QUANT-GGUF-Q7_X"].bits_per_weight == (7.5,)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda old: "family: ours\n", r"ours\.yaml, field title"),
        (lambda old: "rows: [\n", r"ours\.yaml, field line 2"),
        (lambda old: f"{old}sources: []\n", r"ours\.yaml.* stands twice"),
        (lambda old: f"{old.replace(ORDER, '')}{ORDER}", r"ours\.yaml, field line"),
    ],
    ids=["no title", "no YAML", "a key twice", "rows that are not last"],
)
def test_a_row_file_that_cannot_be_added_to_is_broken_further(
    tree: Path, change: Callable[[str], str], named: str
) -> None:
    begin(tree, "a method")
    (tree / OURS).write_text(change((tree / OURS).read_text()))
    before = contents(tree)
    with pytest.raises(BadInput, match=named):
        plan(wanted("an encoding of ggml"), tree)
    assert contents(tree) == before


def test_a_finished_tree_has_an_unfinished_unit() -> None:
    assert [str(finding) for finding in find(REPOSITORY)] == []
