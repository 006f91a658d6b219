"""The table of `harness compare`: what an engineer reads first."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.report.compare_model import CompareReport, Divergence, EncodingResult, TensorResult
from harness.text import printable
from harness.verdicts import Verdict

SHOWN = 10
"""Tensors that did not pass are listed up to this many; the JSON holds all."""
WIDE = 113
"""Columns that the table of encodings and speeds takes."""
LONGEST_LABEL = 16
"""A subject with a longer name (a path) is called "subject" in the table's head."""


def show(report: CompareReport, console: Console) -> None:
    """Write the report to `console`. Text from the checkpoint is escaped and never read as markup."""
    console.print(_heading(report))
    if report.levels.tensors is not None:
        console.print(_encodings(report, console.width))
    console.print(_levels(report))
    for line in _findings(report):
        console.print(line)
    console.print(_last_line(report))


def _heading(report: CompareReport) -> RenderableType:
    checkpoint, oracle = report.checkpoint, report.oracle
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    size = f"{checkpoint.bytes / 1e6:.1f} MB"
    grid.add_row("checkpoint", _plain(checkpoint.path))
    grid.add_row(
        "",
        _plain(
            f"{checkpoint.container}, {checkpoint.architecture or 'no architecture'}, {checkpoint.tensors} tensors, {size}"
        ),
    )
    grid.add_row("", _plain(f"sha256 {checkpoint.sha256}"))
    grid.add_row("subject", _plain(f"{report.subject.name} {report.subject.version}"))
    grid.add_row("oracle", _plain(f"{oracle.name}: {_pin(oracle.pin)}"))
    if not oracle.second_opinions:
        grid.add_row("2nd opinion", _plain(f"none: {oracle.name} alone decides"))
    for other in oracle.second_opinions:
        grid.add_row("2nd opinion", _plain(f"{other['name']}: {_pin(other['pin'])}"))
    grid.add_row("seed", str(report.seed))
    return Group(grid, Text(""))


def _pin(pin: dict[str, object]) -> str:
    return f"{pin.get('package')} {pin.get('version')} (wheel sha256 {str(pin.get('wheel_sha256'))[:12]}…)"


def _encodings(report: CompareReport, width: int) -> RenderableType:
    """One table where it fits, else the speeds in a second one: nothing that decides is ever cut."""
    level = report.levels.tensors
    assert level is not None
    providers = sorted(
        {name for entry in level.by_encoding for name in entry.seconds}, key=_subject_first(report)
    )
    total = EncodingResult(
        encoding="total",
        verdict=level.verdict,
        tensors=sum(entry.tensors for entry in level.by_encoding),
        passed=sum(entry.passed for entry in level.by_encoding),
        compared=sum(entry.compared for entry in level.by_encoding),
        elements=sum(entry.elements for entry in level.by_encoding),
        bit_exact=level.bit_exact,
        max_abs=level.max_abs,
        max_ulp=level.max_ulp,
        judges=[],
        seconds={
            name: sum(entry.seconds.get(name, 0.0) for entry in level.by_encoding) for name in providers
        },
    )
    decoded = {name: sum(e.elements for e in level.by_encoding if name in e.seconds) for name in providers}
    rows = [*level.by_encoding, total]
    if width >= WIDE:
        return _table(rows, providers, decoded, verdicts=True, speeds=True)
    if not providers:
        return _table(rows, providers, decoded, verdicts=True, speeds=False)
    speeds = _table(rows, providers, decoded, verdicts=False, speeds=True)
    return Group(_table(rows, providers, decoded, verdicts=True, speeds=False), Text(""), speeds)


def _table(
    rows: list[EncodingResult], providers: list[str], decoded: dict[str, int], *, verdicts: bool, speeds: bool
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("encoding", no_wrap=True)
    if verdicts:
        for name in ("tensors", "weights", "bit-exact", "max |err|", "max ulp"):
            table.add_column(name, justify="right", no_wrap=True)
    if speeds:
        for name in providers:
            label = name if len(name) <= LONGEST_LABEL else "subject"
            table.add_column(Text(f"{printable(label)}\nMweights/s"), justify="right", no_wrap=True)
    if verdicts:
        table.add_column("verdict", no_wrap=True)
    for entry in rows:
        if entry.encoding == "total":
            table.add_section()
        cells: list[RenderableType] = [_plain(entry.encoding)]
        if verdicts:
            cells += [str(entry.tensors), f"{entry.elements:,}", *_measured(entry)]
        if speeds:
            done = decoded if entry.encoding == "total" else dict.fromkeys(providers, entry.elements)
            cells += [_rate(done[name], entry.seconds.get(name, 0.0)) for name in providers]
        table.add_row(*cells, *([_verdict(entry.verdict)] if verdicts else []))
    return table


def _measured(entry: EncodingResult) -> list[str]:
    """What only a comparison of values can say; a dash where none took place."""
    if not entry.compared:
        return ["-", "-", "-"]
    return [str(entry.passed), f"{entry.max_abs:.3g}", str(entry.max_ulp)]


def _subject_first(report: CompareReport) -> Callable[[str], tuple[int, str]]:
    order = [report.subject.name, report.oracle.name]
    return lambda name: (order.index(name) if name in order else len(order), name)


def _rate(elements: int, seconds: float) -> str:
    return f"{elements / seconds / 1e6:,.0f}" if seconds > 0 else "-"


def _levels(report: CompareReport) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("level")
    table.add_column("checked", justify="right")
    table.add_column("diverged", justify="right")
    table.add_column("not compared", justify="right")
    table.add_column("verdict")
    recognized, tensors = report.levels.recognize, report.levels.tensors
    if recognized is not None:
        table.add_row(
            "recognize", str(recognized.checked), str(recognized.diverged), "-", _verdict(recognized.verdict)
        )
    if tensors is not None:
        missing = sum(entry.tensors - entry.compared for entry in tensors.by_encoding)
        table.add_row(
            "tensors", str(tensors.checked), str(tensors.diverged), str(missing), _verdict(tensors.verdict)
        )
    return Group(Text(""), table, Text(""))


def _findings(report: CompareReport) -> list[RenderableType]:
    found: list[RenderableType] = []
    recognized = report.levels.recognize
    if recognized is not None:
        found += [_plain(f"recognize: {message}") for message in recognized.messages[:SHOWN]]
    level = report.levels.tensors
    found += [_plain(note) for note in report.notes]
    if level is None:
        return found
    alone = [entry.encoding for entry in level.by_encoding if len(entry.judges) == 1]
    if alone and report.oracle.second_opinions:
        found.append(_plain(f"without a second opinion: {', '.join(alone)}"))
    alike: dict[str, list[TensorResult]] = {}
    for result in level.not_passed:
        # Without a place of its own a result says the same as others of its kind: say it once.
        key = result.name if result.divergence else f"{result.verdict} {result.side} {result.message}"
        alike.setdefault(key, []).append(result)
    for first, *others in list(alike.values())[:SHOWN]:
        found += _finding(first)
        if others:
            found.append(_plain(f"  and {len(others)} more tensors with the same message"))
    if len(alike) > SHOWN:
        found.append(_plain(f"… and {len(alike) - SHOWN} more (all are in --json)"))
    return [*found, Text("")] if found else found


def _finding(result: TensorResult) -> list[RenderableType]:
    where = f"{printable(result.name)} ({result.encoding}, {'x'.join(map(str, result.shape))})"
    lines = [Text.assemble(_verdict(result.verdict), " ", where)]
    if result.side.value == "oracle":
        lines.append(_plain(f"  the oracle's side: {result.message}"))
    elif result.message:
        lines.append(_plain(f"  {result.message}"))
    if result.divergence is not None and result.side.value == "oracle":
        at = result.divergence
        found = f"row {at.row} block {at.block} lane {at.lane}: {at.subject} ({at.subject_bits})"
        lines.append(_plain(f"  worst: {found}, the first judge {at.oracle} ({at.oracle_bits})"))
    elif result.divergence is not None:
        lines += [_plain(f"  {line}") for line in _worst(result.divergence)]
    lines += [_plain(f"  stderr: {line}") for line in result.stderr.splitlines()[-3:]]
    return list(lines)


def _worst(at: Divergence) -> list[str]:
    ulp = f", {at.ulp} ulp apart" if at.ulp is not None else ""
    where = f"row {at.row} block {at.block} lane {at.lane}"
    sides = f"got {at.subject} ({at.subject_bits}), wanted {at.oracle} ({at.oracle_bits})"
    lines = [
        f"worst: {where}: {sides}{ulp}",
        f"smallest bound that would pass: {at.smallest_passing_bound!r}",
    ]
    if at.diagnosis:
        lines.append(f"looks like: {at.diagnosis}")
    if at.reproducer:
        lines.append(f"reproducer: python {at.reproducer}")
    return lines


def _last_line(report: CompareReport) -> Text:
    total = report.timings.get("total_s", 0.0)
    return Text.assemble(
        _verdict(report.verdict),
        f"  in {total:.1f} s, peak memory {report.peak_rss / 1e6:.0f} MB (harness process), exit {report.exit_code}",
    )


def _plain(text: str) -> Text:
    return Text(printable(text, 600))


def _verdict(verdict: Verdict) -> Text:
    if verdict is Verdict.PASS:
        return Text(verdict, style="bold green")
    return Text(verdict, style="bold yellow" if verdict in (Verdict.NOT_RUN, Verdict.SKIP) else "bold red")
