"""Fates and differences as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.text import printable
from harness.upstream.model import STATES, AxisChange, BoundChange, Diff, OneFate, Status

LONGEST = 400
_HEADINGS = ("ported", "skipped", "not applicable", "unaccounted")


def show_status(report: Status, console: Console, *, tests: bool) -> None:
    """A line an engine and the sum; with `tests` also a line for each group of tests of a file that share a fate."""
    if tests:
        console.print(_fates(report))
    table = Table()
    table.add_column("engine")
    for heading in ("tests", *_HEADINGS):
        table.add_column(heading, justify="right")
    for engine, counts in report.engines.items():
        table.add_row(Text(engine), str(sum(counts.values())), *(str(counts[state]) for state in STATES))
    table.add_section()
    table.add_row("all", str(report.total), *(str(getattr(report, state)) for state in STATES))
    console.print(table)


def _fates(report: Status) -> Table:
    table = Table()
    for heading in ("file", "tests", "fate", "row or place", "reason"):
        table.add_column(heading)
    for file in report.files:
        for place, (_, group) in enumerate(groupby(file.tests, key=_shared)):
            members = list(group)
            first = members[0]
            names = first.name if len(members) == 1 else f"{first.name} and {len(members) - 1} more"
            path = f"{file.path}{' (retired)' if file.retired else ''}"
            where = first.row or ", ".join(first.where)
            table.add_row(
                *(
                    Text(printable(words, LONGEST))
                    for words in ("" if place else path, names, first.fate, where, first.reason or "")
                )
            )
        table.add_section()
    return table


def _shared(test: OneFate) -> tuple[object, ...]:
    return (test.fate, test.row, test.where, test.reason)


def show_diff(report: Diff, console: Console) -> None:
    """What was added, removed, re-parametrised and re-bounded, then what could not be compared, then the counts."""
    for line in _lines(report):
        console.print(Text(line), soft_wrap=True)


def _lines(report: Diff) -> Iterator[str]:
    for file in report.added_files:
        yield _line("+", f"{file.path}: {_many(len(file.tests), 'test')} ({file.reason})")
    for file in report.removed_files:
        yield _line("-", f"{file.path}: {', '.join(file.tests)}")
    for added in report.added_tests:
        yield _line("+", f"{added.path}: {added.test}{_cases(added.cases)}")
    for removed in report.removed_tests:
        yield _line("-", f"{removed.path}: {removed.test}{_cases(removed.cases)}")
    for change in report.changed:
        yield _line("~", f"{change.path}: {change.test}")
        yield from (f"    {printable(_axis(axis), LONGEST)}" for axis in change.axes)
        yield from (f"    {printable(_bound(bound), LONGEST)}" for bound in change.bounds)
    yield from not_read(report.unreadable)
    for left in report.not_comparable:
        yield _line("?", f"{left.path}: {left.test}: {left.reason}")
    yield from _summary(report)


def not_read(unreadable: Mapping[str, str]) -> Iterator[str]:
    """A line for each file of a tree that could not be read, with the reason."""
    for path, why in unreadable.items():
        yield _line("!", f"{path}: not read: {why}")


def _summary(report: Diff) -> Iterator[str]:
    counts = report.counts
    yield printable(f"{report.engine}: {report.tree} against {report.against}", LONGEST)
    yield (
        f"compared   {_many(counts.files, 'file')}, {_many(counts.tests, 'test')} ({counts.same} of them word for word the "
        f"same), {_many(counts.axes, 'parameter')}, {_many(counts.checks, 'check')}; {counts.not_comparable} not comparable"
    )
    yield (
        f"differs    {_many(counts.added_files, 'file')} added and {counts.removed_files} removed, "
        f"{_many(counts.added_tests, 'test')} added and {counts.removed_tests} removed, {counts.reparametrised} "
        f"re-parametrised, {counts.rebounded} re-bounded; {counts.text_only} in their text alone"
    )
    for reason, paths in report.outside.items():
        yield printable(f"outside    {_many(len(paths), 'file')}: {reason}", LONGEST)


def _axis(axis: AxisChange) -> str:
    name = ", ".join(axis.names)
    if axis.was is None and axis.now is not None and not axis.lost:
        return f"parameter {name}: new, {_values(axis.gained)}"
    if axis.now is None and not axis.gained:
        return f"parameter {name}: gone, was {_values(axis.lost)}"
    parts = [f"parameter {name}: {axis.was} -> {axis.now} values"]
    parts += [f"gained {_values(axis.gained)}"] if axis.gained else []
    parts += [f"lost {_values(axis.lost)}"] if axis.lost else []
    return ", ".join(parts)


def _bound(bound: BoundChange) -> str:
    via = f" in {bound.via}" if bound.via else ""
    if bound.was is None:
        return f"{bound.kind}{via}: new, {bound.now}"
    if bound.now is None:
        return f"{bound.kind}{via}: gone, was {bound.was}"
    return f"{bound.kind}{via}: {bound.was} -> {bound.now}"


def _values(values: Sequence[str]) -> str:
    return "; ".join(values) if values else "values that the source does not tell"


def _cases(cases: int | None) -> str:
    return "" if cases is None else f" ({_many(cases, 'case')})"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _line(sign: str, words: str) -> str:
    return f"{sign} {printable(words, LONGEST)}"


def changed_lines(diffs: Iterable[str]) -> tuple[int, int]:
    """How many lines unified diffs add and take away."""
    lines = [line for text in diffs for line in text.splitlines() if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
