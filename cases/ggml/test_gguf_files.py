"""Ported from llama.cpp's test-gguf: GGUF files good and bad, and who reads, writes and copies them how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases.ggml import gguf_readings as readings
from cases.ggml.container import our_reading, their_reading
from cases.ggml.gguf_contents import random_kvs, random_tensors
from cases.ggml.gguf_families import HANDCRAFTED, PREFIX, ROUNDTRIP, SET_KV, WAYS
from cases.ggml.gguf_files import Made
from cases.ggml.gguf_kinds import KINDS, UPSTREAM
from cases.ggml.gguf_outcomes import ACCEPTED, TABLE, Outcome, difference_rows, load_outcomes
from cases.upstream.inventory import load_inventory
from harness.containers import open_checkpoint
from harness.containers.gguf_write import Typed, write_gguf
from harness.containers.side_tensors import side_tensors
from harness.containers.tests import gguf_bytes as g
from harness.errors import BadInput
from harness.evidence.case import Case
from harness.paths import REPOSITORY
from harness.plugin.opinions import judge_of, own_judge
from harness.plugin.verdict import CaseVerdict
from oracles.pool import Oracle, Pool, ProviderError

KERNEL = "harness/containers/gguf.py:open_gguf"
WRITER = "harness/containers/gguf_write.py:write_gguf"
MOST_SECONDS = 20.0
"""For a file of a few hundred kilobytes: a count that it claims must not be walked."""


@pytest.fixture
def engine(oracle_pool: Pool) -> Oracle:
    """llama.cpp, whose format it is."""
    return oracle_pool.get("llama_cpp.ops")


@pytest.fixture
def gguf_py(oracle_pool: Pool) -> Oracle:
    """The second opinion, where it has one."""
    return oracle_pool.get("formats")


def opened(engine: Oracle, path: Path, **how: object) -> dict[str, Any]:
    """The engine's answer to `gguf_open`."""
    return engine.call("gguf_open", {"path": str(path), **how}, expect={}, timeout=MOST_SECONDS).result


def rewritten(engine: Oracle, path: Path, out: Path, **how: object) -> Path:
    """The file `out`, which the engine writes."""
    engine.call("gguf_rewrite", {"path": str(path), "out": str(out), **how}, expect={}, timeout=MOST_SECONDS)
    return out


@pytest.mark.cases(HANDCRAFTED)
def test_a_file_is_accepted_or_refused_otherwise_than_the_table_says(
    case: Case, verdict: CaseVerdict, engine: Oracle, gguf_py: Oracle, tmp_path: Path
) -> None:
    kind = case.axis("kind")
    made, expected = KINDS[kind](np.random.default_rng(case.seed)), load_outcomes()[kind]
    path = made.laid.write(tmp_path / "model.gguf")
    answer = opened(engine, path, data=made.has_data)
    table: dict[str, object] = {"ours": expected.ours, "llama.cpp": expected.engine}
    reading, common = _our_outcome(path, made, expected), {}
    if answer["accepted"]:
        common = readings.engines(answer)
        _part_ways(reading, common, made, expected)
        common = common if expected.ours == ACCEPTED else {}
    opinions = {engine.name: table | {"llama.cpp": _engine_outcome(answer, expected)} | common}
    judges = [judge_of(engine)]
    if expected.gguf_py:
        table["gguf-py"] = expected.gguf_py
        opinions[engine.name]["gguf-py"] = expected.gguf_py
        opinions[gguf_py.name] = table | {"gguf-py": _second_outcome(gguf_py, path)} | common
        judges.append(judge_of(gguf_py))
    opinions["outcomes"] = table | common
    judges.append(own_judge("outcomes", [TABLE]))
    verdict.fields(table | reading, opinions, judges, kernel=KERNEL)


def _our_outcome(path: Path, made: Made, expected: Outcome) -> dict[str, object]:
    """`accepted` and what we read, as far as the engine can be asked for the same; or the field that we refuse."""
    try:
        reading = readings.ours(path, data=made.has_data)
    except BadInput as refusal:
        field = refusal.field.replace(f"[{made.index}]", "[i]", 1)
        key = field.removeprefix("kv[i] ").partition(" ")[0].partition("[")[0]
        at_the_damage = made.at is None or refusal.offset == made.at
        return {
            "ours": field.replace(f"kv[i] {key}", "kv[i] KEY", 1)
            if at_the_damage
            else f"{refusal.field} at {refusal.offset}, wanted {made.at}"
        }
    return {"ours": ACCEPTED, **(reading if expected.engine == ACCEPTED else {})}


def _engine_outcome(answer: Mapping[str, Any], expected: Outcome) -> str:
    if answer["accepted"]:
        return ACCEPTED
    assert not answer["dangling"], "the engine refuses the file and leaves a context behind"
    words = " / ".join(answer["log"])
    return expected.engine if expected.engine in words else words


def _second_outcome(gguf_py: Oracle, path: Path) -> str:
    """gguf-py's word; where it accepts what we accept, its reading is ours too."""
    try:
        description = gguf_py.describe(path)
    except ProviderError as error:
        if error.kind != "bad_request":
            raise
        return "refused"
    return ACCEPTED if _agrees(description, path) else "accepted, with another reading than ours"


def _agrees(description: Mapping[str, Any], path: Path) -> bool:
    try:
        ours = our_reading(path)
    except BadInput:
        return True
    theirs = their_reading(description)
    # gguf-py takes an array's item type from its first item, and an empty one has none.
    unknown = {name for name, value in theirs.items() if value == ("None[]", 0)}
    ours, theirs = (
        {name: value for name, value in side.items() if name not in unknown} for side in (ours, theirs)
    )
    return readings.comparable(theirs) == readings.comparable(ours)


def _part_ways(ours: dict[str, object], engines: dict[str, object], made: Made, expected: Outcome) -> None:
    """Take the one field out of both readings that the table says is read in two ways, after a look that it is."""
    if expected.unlike is not None:
        name = f"key my_key_{made.index}.{expected.unlike}"
        assert ours.pop(name) != engines.pop(name), f"{name} is read alike"


@pytest.mark.cases(ROUNDTRIP)
def test_a_file_says_something_else_after_it_was_written_again(
    case: Case, verdict: CaseVerdict, engine: Oracle, tmp_path: Path
) -> None:
    way = WAYS[case.axis("way")]
    data = way["data"] is True
    rng = np.random.default_rng(case.seed)
    source = g.lay(random_kvs(rng), random_tensors(rng)).write(tmp_path / "source.gguf")
    original = opened(engine, source, data=data)
    if case.axis("writer") == "ours":
        written = tmp_path / "written.gguf"
        with open_checkpoint(source) as checkpoint:
            write_gguf(written, readings.metadata_of(checkpoint), readings.tensors_of(checkpoint))
        again = opened(engine, _prefixed(written, case), **way)
        assert readings.engines(again) == readings.engines(original)
    else:
        written = rewritten(
            engine,
            _prefixed(source, case),
            tmp_path / "written.gguf",
            tensors=True,
            only_meta=not data,
            **way,
        )
        if not data:
            _complete(written, source, original["data_offset"])
    verdict.fields(
        readings.ours(written, data=data),
        {engine.name: readings.engines(original)},
        [judge_of(engine)],
        kernel=f"{KERNEL}, {WRITER}",
    )


def _prefixed(path: Path, case: Case) -> Path:
    """The same file, or one in which it begins behind other bytes."""
    if case.axis("way") != "prefix":
        return path
    embedded = path.with_name("embedded.bin")
    embedded.write_bytes(PREFIX + path.read_bytes())
    return embedded


def _complete(metadata: Path, source: Path, data_offset: int) -> None:
    """A file without its data is refused; with the data of another behind it, it is a checkpoint."""
    with pytest.raises(BadInput) as refusal:
        open_checkpoint(metadata)
    assert refusal.value.field == "tensor data"
    with metadata.open("ab") as out:
        out.write(source.read_bytes()[data_offset:])


@pytest.mark.cases(SET_KV)
def test_a_copied_pair_is_lost_or_another(
    case: Case, verdict: CaseVerdict, engine: Oracle, tmp_path: Path
) -> None:
    rng = np.random.default_rng(case.seed)
    source = g.lay(random_kvs(rng), []).write(tmp_path / "source.gguf")
    others = [*random_kvs(rng, count=50), *random_kvs(rng, prefix="other", count=50)]
    target = g.lay(others, []).write(tmp_path / "target.gguf")
    filled = case.axis("into") != "empty"
    copied = rewritten(
        engine,
        source,
        tmp_path / "copied.gguf",
        into=str(target) if filled else None,
        back=case.axis("into") == "filled_and_back",
    )
    merged: dict[str, Typed] = {}
    for path in (target, source) if filled else (source,):
        with open_checkpoint(path) as checkpoint:
            merged |= readings.metadata_of(checkpoint)
    ours = tmp_path / "ours.gguf"
    write_gguf(ours, merged, [])
    theirs = readings.engines(opened(engine, copied))
    assert readings.engines(opened(engine, ours)) == theirs
    assert readings.ours(copied) == theirs
    verdict.fields(
        readings.ours(ours), {engine.name: theirs}, [judge_of(engine)], kernel=f"{KERNEL}, {WRITER}"
    )


def test_a_kind_has_no_outcome_or_upstream_has_a_kind_that_we_do_not() -> None:
    file = next(file for file in load_inventory("llama.cpp").files if file.path == "tests/test-gguf.cpp")
    theirs = {str(value).partition(" ")[0] for value in file.tests[0].axes[0].values or ()}
    assert set(UPSTREAM) == theirs
    assert set(KINDS) == set(load_outcomes())


def test_the_document_does_not_say_where_the_readers_differ() -> None:
    document = (REPOSITORY / "docs" / "gguf-container.md").read_text("utf-8")
    assert [line for line in difference_rows() if line not in document] == []


def test_a_refused_file_leaves_the_engine_unable_to_read_the_next(engine: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    for kind in KINDS:
        made = KINDS[kind](np.random.default_rng(1))
        opened(engine, made.laid.write(path), data=made.has_data)
    good = KINDS["DATA_SUCCESS"](np.random.default_rng(1))
    assert opened(engine, good.laid.write(path), data=True)["accepted"]


def test_the_document_is_wrong_about_strings_that_the_engine_cuts(engine: Oracle, tmp_path: Path) -> None:
    source = g.lay([(b"k", g.STR, g.text(b"a\0b"))], []).write(tmp_path / "source.gguf")
    with open_checkpoint(rewritten(engine, source, tmp_path / "copied.gguf")) as copied:
        assert copied.value("k") == "a", (
            "the engine has changed: docs/gguf-container.md says that it cuts here"
        )


def test_the_document_is_wrong_about_keys_that_the_engine_cuts(engine: Oracle, tmp_path: Path) -> None:
    made = KINDS["KV_ALIGN_BEFORE_NUL"](np.random.default_rng(1))
    answer = opened(engine, made.laid.write(tmp_path / "model.gguf"))
    assert answer["alignment"] == 64, "the engine has changed: docs/gguf-container.md says that it does not"


def test_the_scales_beside_an_nvfp4_weight_are_taken_for_weights(tmp_path: Path) -> None:
    made = KINDS["DATA_NVFP4_SIDE_TENSORS"](np.random.default_rng(1))
    with open_checkpoint(made.laid.write(tmp_path / "model.gguf")) as checkpoint:
        sides = side_tensors(checkpoint, "blk.0.ffn_up.weight")
        assert {side: info.name for side, info in sides.items()} == {
            "scale": "blk.0.ffn_up.scale",
            "input_scale": "blk.0.ffn_up.input_scale",
        }
        assert side_tensors(checkpoint, "blk.0.ffn_up.scale") == {}
