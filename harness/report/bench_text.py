"""The tables of `harness bench`: a line for each case and arm, then what was asserted, then what keeps a figure from counting."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.bench_model import ArmReport, BenchReport, FloorReport
from harness.text import printable
from harness.verdicts import PASSING, UNDECIDED, Verdict

SHOWN = 10
"""Reasons that differ are listed up to this many."""


def show(report: BenchReport, console: Console) -> None:
    """Write the report to `console`. Text that comes from outside is escaped."""
    device, ceilings = report.device, report.ceilings
    console.print(_plain(report.title))
    console.print(
        _plain(
            f"{device.name}, {device.threads} of {device.cores} cores; a copy in memory moves {ceilings.copy_gbps:.1f} GB/s"
        )
    )
    console.print(_plain("; ".join(f"{name}: {version}" for name, version in report.pins.items())))
    console.print(_figures(report))
    if report.floors:
        console.print(_floors(report.floors))
    for line in _reasons(report):
        console.print(_plain(line))
    console.print(_last(report))


def _figures(report: BenchReport) -> Table:
    table = Table()
    table.add_column("case")
    table.add_column("implementation")
    for heading in ("median us", "spread", "GB/s", "of copy", f"x {report.oracle}", "noise"):
        table.add_column(heading, justify="right")
    table.add_column("verified")
    table.add_column("verdict")
    for case, members in groupby(report.arms, key=lambda line: line.case):
        for place, line in enumerate(members):
            table.add_row(
                _plain(case if place == 0 else ""),
                _plain(line.impl),
                _number(line.median_us, ".1f"),
                _number(line.spread, ".1%"),
                _number(line.gbps, ".2f"),
                _number(line.bound_ratio, ".2f"),
                _ratio(line),
                _number(line.noise, ".1%"),
                _word(line.verified),
                _word(line.verdict),
            )
        table.add_section()
    return table


def _floors(floors: tuple[FloorReport, ...]) -> Table:
    table = Table()
    for heading in ("floor", "case"):
        table.add_column(heading)
    for heading in ("wanted", "got"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for floor in floors:
        table.add_row(
            _plain(f"{floor.arm} / {floor.against}"),
            _plain(floor.case),
            f"{floor.at_least:g} x",
            "" if floor.speedup is None else f"{floor.speedup:.2f} x",
            {True: Text("met", "green"), False: Text("MISSED", "bold red"), None: Text("open", "yellow")}[
                floor.met
            ],
        )
    return table


def _reasons(report: BenchReport) -> list[str]:
    """Each reason once: why figures do not count, and what was left out."""
    found = [
        f"{line.case}, {line.impl}: {line.verdict}: {line.reason}"
        for line in report.arms
        if line.verdict in UNDECIDED
    ]
    found += [f"{name}: left out, {why}" for name, why in report.left_out.items()]
    return found[:SHOWN] + ([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])


def _last(report: BenchReport) -> Text:
    counts = {verdict: sum(line.verdict is verdict for line in report.arms) for verdict in Verdict}
    words = (
        ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "nothing was timed"
    )
    missed = sum(floor.met is False for floor in report.floors)
    if missed:
        words += f"; {missed} of {len(report.floors)} floors missed"
    if report.run:
        words += f"; run {report.run}"
    return Text(words, style="bold red" if missed else "bold")


def _ratio(line: ArmReport) -> str:
    if line.ratio is None or line.interval is None:
        return ""
    low, high = (float(end) for end in line.interval)
    return f"{float(line.ratio):.2f} ({low:.2f}-{high:.2f})"


def _number(value: float | str | None, form: str) -> str:
    return "" if value is None else format(float(value), form)


def _word(verdict: Verdict) -> Text:
    style = "green" if verdict in PASSING else "yellow" if verdict in UNDECIDED else "red"
    return Text(verdict, style=style)


def _plain(text: str) -> Text:
    return Text(printable(text, 400))
