"""`harness cache`: what the harness keeps outside the repository, and how to make it smaller."""

from __future__ import annotations

import click

from harness.verdicts import EXIT_OK


@click.group("cache")
def command() -> None:
    """Show what the harness keeps in the cache folder, and remove answers of oracles from it.

    All of it can be had again; $HARNESS_CACHE names another folder.
    """


@command.command("info")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def info_command(as_json: bool) -> int:
    """Show each part of the cache: what it is, how much of it there is, where."""
    from harness.cache import parts, shown_size
    from harness.paths import cache_root
    from harness.report.strict_json import dumps
    from harness.text import printable
    from oracles.memo import LIMIT_BYTES

    found = parts()
    if as_json:
        rows = [
            {"name": part.name, "path": str(part.path), "entries": part.entries, "bytes": part.bytes}
            for part in found
        ]
        document = {
            "schema": "harness-cache/1",
            "path": str(cache_root()),
            "memo_limit": LIMIT_BYTES,
            "parts": rows,
        }
        click.echo(dumps(document), nl=False)
        return EXIT_OK
    for part in found:
        limit = f", of at most {shown_size(LIMIT_BYTES)}" if part.name == "memo" else ""
        words = f"{part.entries} {'answers' if part.name == 'memo' else 'entries'}"
        click.echo(f"{printable(part.name):<12} {words:<14} {shown_size(part.bytes)}{limit}")
    click.echo(f"{'' if found else 'nothing '}in {printable(str(cache_root()))}")
    return EXIT_OK


@command.command("gc")
@click.option("--limit", metavar="SIZE", help="Keep at most this much (500M, 2G; 0 removes all).")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def gc_command(limit: str | None, as_json: bool) -> int:
    """Remove the answers of oracles that were used longest ago, down to a limit (default: the memo's own)."""
    from harness.cache import parse_size, shown_size
    from harness.report.strict_json import dumps
    from oracles.memo import LIMIT_BYTES, Memo

    memo = Memo()
    removed = memo.trim(LIMIT_BYTES if limit is None else parse_size(limit))
    left = memo.usage()
    if as_json:
        document = {
            "schema": "harness-cache-gc/1",
            "removed": {"answers": removed.answers, "bytes": removed.bytes},
            "left": {"answers": left.answers, "bytes": left.bytes},
        }
        click.echo(dumps(document), nl=False)
    else:
        click.echo(
            f"removed {removed.answers} answers, {shown_size(removed.bytes)}; "
            f"{left.answers} are left, {shown_size(left.bytes)}"
        )
    return EXIT_OK
