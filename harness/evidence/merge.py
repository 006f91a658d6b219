"""Shards of one run put together: what N machines did between them, as if one had done it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.errors import BadInput, UsageProblem
from harness.evidence.record import Evidence
from harness.evidence.run import MANIFEST, PINS, RUNS, Run, RunWriter, Source, read_json, read_run
from harness.verdicts import worst

_SHARD = re.compile(r"^([1-9]\d*)/([1-9]\d*)$")


def merge(runs: Sequence[Run], root: Path = RUNS) -> Run:
    """A new run below `root` with the verdicts of `runs`. A case that two of them have keeps the worse verdict, noted.

    Raises UsageProblem when the runs are not parts of one thing: other commits, other uncommitted files, other harness
    versions, other pins, the same run twice, a run that has not ended, or shards I/N of which one is missing.
    """
    if len(runs) < 2:
        raise UsageProblem("merge needs at least two runs")
    for run in runs:
        run.manifest.refuse_unclosed("merge")
    _check_alike(runs)
    _check_shards(runs)
    evidence, notes = _together(runs)
    first = runs[0].manifest
    sources = [
        Source(id=run.manifest.id, shard=run.manifest.shard, verdicts_sha256=run.digest) for run in runs
    ]
    with RunWriter.create(
        root,
        command=first.command,
        pins=read_json(runs[0].path / PINS),
        environment={"merged": {run.manifest.id: dict(run.environment) for run in runs}},
        code=first.code.model_copy(update={"uncommitted": first.uncommitted}),
        merged_from=sources,
        notes=notes,
    ) as writer:
        for entry in evidence.values():
            writer.append(entry)
    return read_run(writer.path)


def _together(runs: Sequence[Run]) -> tuple[dict[str, Evidence], list[str]]:
    evidence: dict[str, Evidence] = {}
    notes = [f"{run.manifest.id}: {note}" for run in runs for note in (*run.manifest.taken_over, *run.notes)]
    for run in runs:
        for case, entry in run.evidence.items():
            other = evidence.get(case)
            if other is None:
                evidence[case] = entry
            elif other.verdict is not entry.verdict:
                kept = worst((other.verdict, entry.verdict))
                evidence[case] = other if other.verdict is kept else entry
                notes.append(
                    f"{case}: {other.verdict} in one run, {entry.verdict} in another; {kept} is kept"
                )
    return evidence, notes


def _check_alike(runs: Sequence[Run]) -> None:
    first = runs[0]
    ids = [run.manifest.id for run in runs]
    if len(set(ids)) != len(ids):
        raise UsageProblem("merge: the same run twice")
    for run in runs[1:]:
        for what, here, there in (
            ("commit", run.manifest.code.commit, first.manifest.code.commit),
            ("uncommitted files", run.manifest.uncommitted, first.manifest.uncommitted),
            ("harness", run.manifest.harness, first.manifest.harness),
            ("pins", read_json(run.path / PINS), read_json(first.path / PINS)),
        ):
            if here != there:
                shown = f": {here} and {there}" if isinstance(here, str) else ""
                raise UsageProblem(
                    f"merge: {run.manifest.id} and {first.manifest.id} differ in {what}{shown}"
                )


def _check_shards(runs: Sequence[Run]) -> None:
    numbers: set[int] = set()
    totals: set[int] = set()
    for run in runs:
        if run.manifest.shard is None:
            continue
        match = _SHARD.match(run.manifest.shard)
        if match is None or int(match[1]) > int(match[2]):
            raise BadInput(
                file=run.path / MANIFEST,
                field="shard",
                got=run.manifest.shard,
                wanted="I/N with I from 1 to N",
            )
        numbers.add(int(match[1]))
        totals.add(int(match[2]))
    if len(totals) > 1:
        raise UsageProblem(f"merge: shards of {' and of '.join(map(str, sorted(totals)))}")
    missing = sorted(set(range(1, max(totals, default=0) + 1)) - numbers)
    if missing:
        raise UsageProblem(f"merge: shard {', '.join(map(str, missing))} of {max(totals)} is missing")
