"""From a measured series to the arms' lines in the report, and from these to floors and an exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.bench.arms import Player
from harness.bench.figures import Ratio, figure, noise_of, ratio, speed_verdict
from harness.bench.inputs import Inputs
from harness.bench.load import busy, cores
from harness.bench.recipe import Floor, Recipe, Work
from harness.bench.series import AGAIN, LEAST_ROUNDS, Measured
from harness.bench.verify import Verified
from harness.report.bench_model import ArmReport, Ceilings, FloorReport
from harness.verdicts import EXIT_DIFFERENCE, EXIT_OK, EXIT_UNABLE, UNDECIDED, Verdict


def reports(
    recipe: Recipe,
    work: Work,
    inputs: Inputs,
    players: Mapping[str, Player],
    verified: Mapping[str, Verified],
    measured: Measured | None,
    ceilings: Ceilings,
) -> list[ArmReport]:
    """A line for each arm. `measured` None: nothing was timed, since the oracle's own result could not be verified."""
    noise, no_noise = _noise(recipe, measured)
    found = []
    for name, player in players.items():
        samples = measured.arms[name].seconds if measured is not None and name in measured.arms else []
        fault = _void(recipe, name, verified, measured)
        against = None
        if samples and measured is not None and (theirs := measured.arms[recipe.oracle].seconds):
            against = ratio(samples, theirs, recipe.seed)
        verdict, reason = _verdict(recipe, name, fault, against, noise, no_noise, measured)
        median = figure(samples).median if samples else None
        gbps = inputs.moved / median / 1e9 if median else None
        found.append(
            ArmReport(
                case=recipe.case_id(work),
                impl=name,
                kernel=player.kernel,
                verified=verified[name].verdict,
                median_us=median * 1e6 if median else None,
                spread=figure(samples).spread if samples else None,
                gbps=gbps,
                tflops=inputs.flops / median / 1e12 if median and inputs.flops else None,
                bound_ratio=gbps / ceilings.copy_gbps if gbps else None,
                verdict=verdict,
                ratio=against.value if against else None,
                interval=(against.low, against.high) if against else None,
                noise=noise,
                cycles_per_32=(
                    median * ceilings.counter_ghz * 1e9 * 32 / work.elements
                    if median and ceilings.counter_ghz
                    else None
                ),
                rounds=len(samples),
                reason=reason,
            )
        )
    return found


def _noise(recipe: Recipe, measured: Measured | None) -> tuple[float | None, str]:
    if measured is None:
        return None, "nothing was timed"
    again, first = measured.arms[AGAIN], measured.arms[recipe.oracle]
    if again.fault or min(len(again.seconds), len(first.seconds)) < LEAST_ROUNDS:
        return None, again.fault or f"the oracle was not timed {LEAST_ROUNDS} times beside itself"
    return noise_of(ratio(again.seconds, first.seconds, recipe.seed)), ""


def _void(
    recipe: Recipe, name: str, verified: Mapping[str, Verified], measured: Measured | None
) -> str | None:
    """Why a figure of this arm would mean nothing, whatever it is."""
    for arm in (name, recipe.oracle):
        if verified[arm].verdict is not Verdict.PASS:
            return f"{arm} is not verified: {verified[arm].verdict} {verified[arm].message}".rstrip()
    if measured is None:
        return "nothing was timed"
    if measured.lost:
        return f"the lock was not held for the whole series: {measured.lost}"
    return measured.arms[name].fault or measured.arms[recipe.oracle].fault


def _verdict(
    recipe: Recipe,
    name: str,
    fault: str | None,
    against: Ratio | None,
    noise: float | None,
    no_noise: str,
    measured: Measured | None,
) -> tuple[Verdict, str]:
    if fault is not None:
        return Verdict.VOID, fault
    if against is None or noise is None or measured is None:
        return Verdict.VOID, no_noise or "there is no sample"
    if disturbed := busy(*measured.load, recipe.threads, cores()):
        return Verdict.AMBIGUOUS, disturbed
    if name == recipe.oracle:
        quiet = noise <= recipe.noise_limit
        words = f"it differs by {noise:.1%} from itself"
        return (Verdict.SAME, words) if quiet else speed_verdict(against, noise, recipe.noise_limit)
    return speed_verdict(against, noise, recipe.noise_limit)


def floors(recipe: Recipe, work: Work, lines: Sequence[ArmReport]) -> list[FloorReport]:
    """What each floor for this work came to. An arm that is missing, void or ambiguous leaves it open."""
    by_name = {line.impl: line for line in lines}
    return [
        _floor(recipe.case_id(work), floor, by_name)
        for floor in recipe.floors
        if work.encoding in floor.encodings
    ]


def _floor(case: str, floor: Floor, lines: Mapping[str, ArmReport]) -> FloorReport:
    speedup, reason = None, ""
    for name in (floor.against, floor.arm):
        line = lines.get(name)
        if line is None or line.median_us is None:
            reason = f"{name} has no figure"
        elif line.verdict in UNDECIDED:
            reason = f"{name} is {line.verdict}: {line.reason}"
    one, other = lines.get(floor.arm), lines.get(floor.against)
    if one is not None and other is not None and one.median_us and other.median_us:
        speedup = other.median_us / one.median_us
    met = None if reason or speedup is None else speedup >= floor.at_least
    if met is False:
        reason = f"{floor.arm} is {speedup:.2f} times as fast as {floor.against}, wanted {floor.at_least:g}"
    return FloorReport(
        case=case,
        arm=floor.arm,
        against=floor.against,
        at_least=floor.at_least,
        speedup=speedup,
        met=met,
        reason=reason,
    )


def exit_code(lines: Iterable[ArmReport], asserted: Iterable[FloorReport]) -> int:
    """1 for a wrong result or a floor that was missed, 3 where a figure or a floor is open; a slower arm alone is 0."""
    found, held = list(lines), list(asserted)
    wrong = any(line.verified not in (Verdict.PASS, *_UNABLE) for line in found)
    if wrong or any(floor.met is False for floor in held):
        return EXIT_DIFFERENCE
    open_ones = any(line.verdict in UNDECIDED for line in found) or any(floor.met is None for floor in held)
    return EXIT_UNABLE if open_ones or not found else EXIT_OK


_UNABLE = (Verdict.NOT_RUN, Verdict.TIMEOUT, Verdict.ERROR_RUN)
