"""Run a recipe: verify, time, judge, report, and keep evidence where the recipe has a family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.bench.arms import Player, player_of
from harness.bench.ceilings import copy_gbps, counter_ghz
from harness.bench.families import cases_of
from harness.bench.inputs import inputs_of
from harness.bench.judge import exit_code, floors, reports
from harness.bench.load import cores
from harness.bench.recipe import Recipe, Work
from harness.bench.series import Measured, measure
from harness.bench.verify import Verified, verify
from harness.environment import describe
from harness.evidence.case import Case
from harness.evidence.code_hash import code_hash
from harness.evidence.record import Evidence, Figures
from harness.evidence.run import RunWriter
from harness.lock import Held
from harness.report.bench_model import ArmReport, BenchReport, Ceilings, Device, LoadReport
from harness.verdicts import SPEED, Side, Verdict
from oracles.pool import Pool

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Request:
    """What to run: the recipe and where it lies, which of its works, and where runs are kept (None: no evidence)."""

    recipe: Recipe
    path: Path
    works: Sequence[Work]
    runs: Path | None
    command: tuple[str, ...]


def run(request: Request, pool: Pool, held: Held, progress: Progress) -> BenchReport:
    """The whole recipe under a lock that the caller holds. Raises Unavailable when an oracle cannot be had."""
    recipe = request.recipe
    machine = Device(
        backend=recipe.backend, name=str(describe()["cpu"]), cores=cores(), threads=recipe.threads
    )
    ceilings = Ceilings(copy_gbps=copy_gbps(), counter_ghz=counter_ghz())
    cases = cases_of(recipe, request.path)
    lines: list[ArmReport] = []
    asserted = []
    load: list[LoadReport] = []
    left_out: dict[str, str] = {}
    writer = None
    try:
        for done, work in enumerate(request.works):
            case_id = recipe.case_id(work)
            progress(case_id, done, len(request.works))
            found, verified, measured = _one(recipe, work, pool, held, ceilings, left_out)
            lines += found
            asserted += floors(recipe, work, found)
            if measured is not None:
                load.append(LoadReport(case=case_id, before=measured.load[0], after=measured.load[1]))
            if cases and request.runs is not None:
                writer = writer or RunWriter.create(request.runs, command=request.command)
                writer.append(_evidence(recipe, cases[case_id], found, verified, machine, left_out))
    finally:
        if writer is not None:
            writer.close()
    return BenchReport(
        recipe=request.path.name,
        title=recipe.title,
        oracle=recipe.oracle,
        pins={name: _version(pool, name) for name in _pins(recipe)},
        device=machine,
        ceilings=ceilings,
        lock=str(held.files[0].path),
        arms=tuple(lines),
        floors=tuple(asserted),
        load=tuple(load),
        left_out=left_out,
        run=writer.id if writer is not None else None,
        exit_code=exit_code(lines, asserted),
    )


def _one(
    recipe: Recipe, work: Work, pool: Pool, held: Held, ceilings: Ceilings, left_out: dict[str, str]
) -> tuple[list[ArmReport], dict[str, Verified], Measured | None]:
    inputs = inputs_of(work, recipe.seed)
    players: dict[str, Player] = {}
    for arm in recipe.arms:
        player = player_of(arm, work, inputs, pool)
        if isinstance(player, str):
            left_out[f"{recipe.case_id(work)}, {arm.name}"] = player
        else:
            players[arm.name] = player
    if recipe.oracle not in players:
        return [], {}, None
    verified = verify(work, inputs, players, recipe.oracle)
    measured = None
    if verified[recipe.oracle].verdict is Verdict.PASS:
        right = {name: player for name, player in players.items() if verified[name].verdict is Verdict.PASS}
        sha256 = {name: verified[name].sha256 for name in right}
        measured = measure(right, sha256, recipe, held.check)
    return reports(recipe, work, inputs, players, verified, measured, ceilings), verified, measured


def _evidence(
    recipe: Recipe,
    case: Case,
    lines: Sequence[ArmReport],
    verified: dict[str, Verified],
    machine: Device,
    left_out: dict[str, str],
) -> Evidence:
    """The line of our own arm: its verdict, and its figures where it has any."""
    by_name = {line.impl: line for line in lines}
    ours, theirs = by_name.get(recipe.claims), by_name.get(recipe.oracle)
    fields: dict[str, Any] = {
        **{
            name: getattr(case, name) for name in ("family", "op", "encoding", "backend", "dimension", "rows")
        },
        "case": case.id,
        "seed": recipe.seed,
        "bound": case.bound,
        "code_hash": code_hash(case),
        "subject": "reference",
    }
    if ours is None or theirs is None:
        lost = recipe.claims if ours is None else recipe.oracle
        why = left_out.get(f"{case.id}, {lost}", "the oracle does not take part")
        return Evidence(**fields, verdict=Verdict.NOT_RUN, side=Side.ORACLE, message=why)
    judged = verified[recipe.claims]
    fields |= {"kernel": ours.kernel, "device": "cpu", "judges": judged.judges, "elements": judged.elements}
    assert ours.verdict in SPEED
    if ours.verdict in (Verdict.FASTER, Verdict.SAME, Verdict.SLOWER):
        fields["figures"] = _figures(ours, theirs, machine)
    reason = ours.reason
    if ours.verdict is Verdict.SLOWER:
        reason = f"{reason}; {LOSS}"
    return Evidence(**fields, verdict=ours.verdict, message=reason)


LOSS = "plain numpy, several passes over each block, against compiled C that makes one"
"""Why our reference loses: it is written to be read beside its formula."""


def _figures(ours: ArmReport, theirs: ArmReport, machine: Device) -> Figures:
    values = (ours.median_us, ours.spread, ours.gbps, ours.bound_ratio, theirs.median_us, theirs.spread)
    median, spread, gbps, bound_ratio, their_median, their_spread = (float(value or 0) for value in values)
    low, high = ours.interval or (0.0, 0.0)
    return Figures(
        median_us=median,
        spread=spread,
        oracle=theirs.impl,
        oracle_median_us=their_median,
        oracle_spread=their_spread,
        ratio=float(ours.ratio or 0),
        interval=(float(low), float(high)),
        noise=float(ours.noise or 0),
        gbps=gbps,
        bound_ratio=bound_ratio,
        rounds=ours.rounds,
        processor=machine.name,
        threads=machine.threads,
    )


def _pins(recipe: Recipe) -> list[str]:
    return sorted({arm.provider for arm in recipe.arms} - {"reference"})


def _version(pool: Pool, name: str) -> str:
    found = pool.get(name).pin
    return f"{found['package']} {found['version']}"
