"""Which encoding each tensor gets under a preset: our choice from metadata alone against the engine's quantizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cases.ggml.type_selection import (
    ASKED,
    DEMOS,
    ENGINE,
    FILES_WRITTEN,
    KERNEL,
    OPTIONS,
    SHAPES,
    SNAPSHOTS,
    our_choice,
    their_choice,
    their_file,
)
from cases.ggml.type_selection_models import shapes, write_model
from cases.upstream import type_snapshots
from harness.containers import open_checkpoint
from harness.demo import PREFIX, resolve_checkpoint
from harness.evidence.case import Case
from harness.plugin.opinions import judge_of, own_judge
from harness.plugin.verdict import CaseVerdict
from harness.presets.model import Model, read_model
from oracles.pool import Oracle, Pool

Models = Callable[[str], tuple[Path, Model]]


@pytest.fixture(scope="module")
def engine(oracle_pool: Pool) -> Oracle:
    """llama.cpp's quantizer of whole files."""
    return oracle_pool.get(ENGINE)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """The file of a model, written or fetched at its first use, and what is read from it."""
    folder = tmp_path_factory.mktemp("models")
    known: dict[str, tuple[Path, Model]] = {}

    def get(name: str) -> tuple[Path, Model]:
        if name not in known:
            if name in DEMOS:
                path = resolve_checkpoint(PREFIX + name, offline=False, tell=print)
            else:
                path = folder / f"{name}.gguf"
                write_model(path, shapes()[name])
            with open_checkpoint(path) as checkpoint:
                known[name] = path, read_model(checkpoint)
        return known[name]

    return get


@pytest.mark.cases(SHAPES)
def test_a_tensor_gets_another_encoding_than_the_quantizer_gives_it(
    case: Case, verdict: CaseVerdict, engine: Oracle, models: Models
) -> None:
    path, model = models(case.axis("model"))
    preset, imatrix = case.axis("preset"), case.axis("imatrix")
    ours = our_choice(preset, model, imatrix, dry_run=True)
    theirs = their_choice(engine, path, preset, imatrix, ours)
    verdict.fields(ours, {engine.name: theirs}, [judge_of(engine)], kernel=KERNEL)


@pytest.mark.cases(SNAPSHOTS)
def test_a_choice_differs_from_the_one_that_upstream_recorded(
    case: Case, verdict: CaseVerdict, engine: Oracle, models: Models
) -> None:
    name, preset = case.axis("model"), case.axis("preset")
    path, model = models(name)
    ours = our_choice(preset, model, "without", dry_run=True)
    assert type_snapshots.recorded(name) <= ours.keys(), "a recorded weight is missing from the shapes"
    theirs = their_choice(engine, path, preset, "without", ours)
    record = type_snapshots.expected(name, preset, ours)
    judges = [judge_of(engine), own_judge("llama_cpp_snapshots", [type_snapshots.PATH])]
    verdict.fields(ours, {engine.name: theirs, "llama_cpp_snapshots": record}, judges, kernel=KERNEL)


@pytest.mark.cases(ASKED)
def test_an_option_acts_otherwise_than_on_the_quantizer(
    case: Case, verdict: CaseVerdict, engine: Oracle, models: Models
) -> None:
    path, model = models(case.axis("model"))
    preset, options = case.axis("preset"), OPTIONS[case.axis("options")]
    ours = our_choice(preset, model, "with", options)
    theirs = their_choice(engine, path, preset, "with", ours, options)
    verdict.fields(ours, {engine.name: theirs}, [judge_of(engine)], kernel=KERNEL)


@pytest.mark.cases(FILES_WRITTEN)
def test_a_file_that_the_quantizer_writes_or_refuses_is_not_the_chosen_one(
    case: Case, verdict: CaseVerdict, engine: Oracle, models: Models, tmp_path: Path
) -> None:
    path, model = models(case.axis("model"))
    preset, imatrix = case.axis("preset"), case.axis("imatrix")
    ours = our_choice(preset, model, imatrix)
    theirs = their_file(engine, path, tmp_path / "written.gguf", preset, imatrix, ours)
    verdict.fields(ours, {engine.name: theirs}, [judge_of(engine)], kernel=KERNEL)
