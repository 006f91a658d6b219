"""`harness results`: the runs that are kept, what they show, and what of it enters the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.verdicts import EXIT_DIFFERENCE, EXIT_OK, EXIT_UNABLE

if TYPE_CHECKING:
    from harness.evidence.run import Run

_SHOWN = 20

json_option = click.option(
    "--json", "json_to", metavar="FILE|-", help="Write JSON; with - nothing else is printed."
)
runs_option = click.option(
    "--runs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where runs are kept (default: results/runs).",
)


@click.group("results")
def command() -> None:
    """List, show, compare, merge and promote the runs that cases leave behind.

    RUN is a folder, the ID of a run, a beginning of it that only one has, or `latest`.
    """


@command.command("list")
@runs_option
@json_option
def list_command(runs: Path | None, json_to: str | None) -> int:
    """Show every run: when, its verdicts, and whether it can be promoted at all. One that cannot be read says so."""
    from harness.errors import BadInput
    from harness.evidence.run import read_run, run_folders

    entries: list[dict[str, Any]] = []
    for path in run_folders(_root(runs)):
        try:
            entries.append(_summary(read_run(path)))
        except BadInput as error:
            entries.append({"id": path.name, "path": str(path), "problem": str(error)})
    if not _json(json_to, {"schema": "harness-runs/1", "runs": entries}):
        for entry in entries:
            click.echo(f"{entry['id']}  {entry.get('problem') or _one_line(entry)}")
        if not entries:
            click.echo(f"no run in {_root(runs)}")
    return EXIT_UNABLE if any("problem" in entry for entry in entries) else EXIT_OK


@command.command("show")
@click.argument("name", metavar="RUN")
@runs_option
@json_option
def show_command(name: str, runs: Path | None, json_to: str | None) -> int:
    """Show one run: its verdicts, what was noticed when it was read, and every case that is not PASS."""
    from harness.verdicts import Verdict, exit_code

    run = _read(name, runs)
    found = [entry for entry in run.evidence.values() if entry.verdict is not Verdict.PASS]
    details = [entry.model_dump(mode="json", by_alias=True) for entry in found]
    manifest = run.manifest.model_dump(mode="json", by_alias=True)
    if not _json(json_to, {**_summary(run), "manifest": manifest, "not_passed": details}):
        click.echo(f"{run.manifest.id}  {_one_line(_summary(run))}")
        click.echo(f"command  {_plain(' '.join(run.manifest.command))}")
        for note in run.notes:
            click.echo(f"note     {_plain(note)}")
        for kind, entries in _by(found, lambda entry: entry.verdict.value).items():
            click.echo(f"\n{kind}: {len(entries)}")
            lines = [
                f"{entry.case}: {entry.skip.reason if entry.skip else entry.message}" for entry in entries
            ]
            _echo_some(lines)
    return exit_code((entry.verdict, entry.side) for entry in run.evidence.values())


@command.command("diff")
@click.argument("before", metavar="RUN")
@click.argument("after", metavar="RUN")
@runs_option
@json_option
def diff_command(before: str, after: str, runs: Path | None, json_to: str | None) -> int:
    """Compare two runs case by case. Exit 1 when the second lost something: a new failure, a pass, a case."""
    from harness.evidence.differences import LOSSES, changes

    first, second = _read(before, runs), _read(after, runs)
    found = changes(first, second)
    document = {
        "schema": "harness-diff/1",
        "before": first.manifest.id,
        "after": second.manifest.id,
        "counts": dict(Counter(change.kind.value for change in found)),
        "changes": [
            {
                "case": change.case,
                "kind": change.kind.value,
                "before": change.before.verdict.value if change.before else None,
                "after": change.after.verdict.value if change.after else None,
                "words": change.words(),
            }
            for change in found
        ],
    }
    if not _json(json_to, document):
        for kind, members in _by(found, lambda change: change.kind.value).items():
            click.echo(f"{kind}: {len(members)}")
            _echo_some(f"{change.case}: {change.words()}" for change in members)
        same = len(first.evidence.keys() & second.evidence.keys()) - sum(
            change.before is not None and change.after is not None for change in found
        )
        click.echo(f"unchanged: {same}")
    return EXIT_DIFFERENCE if any(change.kind in LOSSES for change in found) else EXIT_OK


@command.command("merge")
@click.argument("names", nargs=-1, required=True, metavar="RUN…")
@runs_option
def merge_command(names: tuple[str, ...], runs: Path | None) -> int:
    """Put the shards of one run together into a new run."""
    from harness.evidence.merge import merge

    merged = merge([_read(name, runs) for name in names], _root(runs))
    click.echo(f"{merged.manifest.id}  {_one_line(_summary(merged))}")
    _echo_some(f"note: {note}" for note in merged.notes)
    return EXIT_OK


@command.command("promote")
@click.argument("name", metavar="RUN")
@click.option("--compact", is_flag=True, help="First begin the ledger anew with the newest lines alone.")
@runs_option
def promote_command(name: str, compact: bool, runs: Path | None) -> int:
    """Add what a run shows to the ledger. Exit 1 when a cell of it had to be left out, 3 when there is nothing in it."""
    from harness.evidence.promote import promote

    run = _read(name, runs)
    done = promote(run, compacted=compact)
    click.echo(
        f"{len(done.added)} cells added, {len(done.unchanged)} unchanged, {len(done.blocked)} left out; "
        f"the ledger has {done.ledger.head.lines} lines"
    )
    _echo_some(run.manifest.taken_over)
    _echo_some(f"left out: {blocked}" for blocked in done.blocked)
    if done.blocked:
        return EXIT_DIFFERENCE
    return EXIT_OK if done.added or done.unchanged else EXIT_UNABLE


@command.command("check")
@click.argument("name", metavar="RUN")
@runs_option
@json_option
def check_command(name: str, runs: Path | None, json_to: str | None) -> int:
    """Hold the CPU lines of the ledger against a fresh run: exit 1 on a failure; what is stale is only listed.

    An empty ledger claims nothing: exit 0 unless the run itself fails.
    """
    from harness.evidence.recompute import recompute_check

    found = recompute_check(_read(name, runs))
    document = {
        "schema": "harness-recomputed/1",
        "confirmed": found.confirmed,
        "failed": found.failed,
        "stale": found.stale,
        "unclaimed": found.unclaimed,
        "nightly": found.nightly,
        "claims": found.claims,
    }
    if not _json(json_to, document):
        for word in ("failed", "stale", "unclaimed", "nightly"):
            _echo_some(f"{word}: {line}" for line in getattr(found, word))
        click.echo(
            f"{found.confirmed} cells confirmed, {len(found.failed)} failed, {len(found.stale)} stale, "
            f"{len(found.unclaimed)} not in the ledger, {len(found.nightly)} left to the nightly run"
        )
        if not found.claims:
            click.echo("the ledger is empty: there is nothing to hold the run against")
    if found.failed:
        return EXIT_DIFFERENCE
    return EXIT_OK if found.ok else EXIT_UNABLE


def _root(runs: Path | None) -> Path:
    from harness.evidence.run import RUNS

    return runs or RUNS


def _read(name: str, runs: Path | None) -> Run:
    from harness.evidence.run import find_run, read_run

    return read_run(find_run(name, _root(runs)))


def _summary(run: Run) -> dict[str, Any]:
    return {
        "id": run.manifest.id,
        "path": str(run.path),
        "started": run.manifest.started,
        "commit": run.manifest.commits[-1],
        "uncommitted": list(run.manifest.uncommitted),
        "closed": run.manifest.closed is not None,
        "shard": run.manifest.shard,
        "verdicts": dict(Counter(entry.verdict.value for entry in run.evidence.values())),
        "notes": list(run.notes),
    }


def _one_line(summary: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in summary["verdicts"].items()) or "no verdict"
    marks = [
        f"shard {summary['shard']}" if summary["shard"] else "",
        "" if summary["closed"] else "not ended",
        f"{len(summary['uncommitted'])} uncommitted files" if summary["uncommitted"] else "",
        "no commit" if summary["commit"] is None else "",
    ]
    return "; ".join(filter(None, [counts, *marks]))


def _json(json_to: str | None, document: dict[str, Any]) -> bool:
    """Write the document where it is wanted; True when nothing else may be printed."""
    if json_to is None:
        return False
    from harness.report.output import write_text
    from harness.report.strict_json import dumps

    if json_to == "-":
        click.echo(dumps(document), nl=False)
        return True
    write_text("--json", json_to, dumps(document))
    return False


def _by(entries: Iterable[Any], key: Callable[[Any], str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for entry in entries:
        found.setdefault(key(entry), []).append(entry)
    return found


def _echo_some(lines: Iterable[str]) -> None:
    listed = list(lines)
    for line in listed[:_SHOWN]:
        click.echo(f"  {_plain(line)}")
    if len(listed) > _SHOWN:
        click.echo(f"  … and {len(listed) - _SHOWN} more")


def _plain(text: str) -> str:
    from harness.text import printable

    return printable(text, 600)
