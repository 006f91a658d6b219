"""`harness audit`: what is skipped, why, for which row, whether it still has to be, and what hides a failure."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.errors import Unavailable, UsageProblem
from harness.verdicts import EXIT_DIFFERENCE, EXIT_OK

if TYPE_CHECKING:
    from rich.console import Console


def _report(option: str, words: str) -> Callable[[Any], Any]:
    """An option with a file, or alone for stdout."""
    name = f"{option.lstrip('-')}_to"
    return click.option(option, name, metavar="[FILE|-]", is_flag=False, flag_value="-", help=words)


@click.command()
@_report("--json", "Write the audit as JSON; alone or with -, on stdout and nothing else.")
@_report("--sarif", "Write the findings as SARIF 2.1.0.")
@_report("--markdown", "Write the summary for a pull request.")
@click.option("--run-skipped", is_flag=True, help="Also run what the debts skip: what passes is a finding.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What an earlier `--json FILE` wrote: a row that owes more than then is a finding.",
)
@click.option(
    "--root", type=click.Path(path_type=Path), metavar="DIR", help="The tree to audit (default: this one)."
)
def command(
    json_to: str | None,
    sarif_to: str | None,
    markdown_to: str | None,
    run_skipped: bool,
    baseline: Path | None,
    root: Path | None,
) -> int:
    """Audit the suite, by collecting and by parsing it. Exit 1 when there is a finding."""
    if importlib.util.find_spec("pytest") is None:
        raise Unavailable(
            "the audit collects the suite: it needs the extra `test` (pip install -e '.[test]')"
        )
    from harness.audit import markdown
    from harness.audit.baseline import read
    from harness.audit.run import audit
    from harness.audit.sarif import sarif
    from harness.audit.table import write
    from harness.paths import REPOSITORY
    from harness.report.output import write_text
    from harness.report.strict_json import dumps
    from harness.report.terminal import show

    wanted = {"--json": json_to, "--sarif": sarif_to, "--markdown": markdown_to}
    on_stdout = [option for option, target in wanted.items() if target == "-"]
    if len(on_stdout) > 1:
        raise UsageProblem(f"{' and '.join(on_stdout)} both write to stdout: give one of them a file")
    if root is not None and not root.is_dir():
        raise UsageProblem(f"--root {root}: there is no such folder")
    # The process ends with the audit: looking for garbage among syntax trees costs a third of its time.
    gc.disable()
    before = read(baseline) if baseline is not None else None
    found = audit((root or REPOSITORY).resolve(), before=before, run_skipped=run_skipped)
    for option, target in wanted.items():
        if target is None:
            continue
        text = (
            markdown.summary(found, before)
            if option == "--markdown"
            else dumps(sarif(found) if option == "--sarif" else found.model_dump(mode="json", by_alias=True))
        )
        if target == "-":
            click.echo(text, nl=False)
        else:
            write_text(option, target, text)
    if not on_stdout:

        def render(console: Console) -> None:
            write(found, before, console)

        # A pipe has no width to fold to: there, every cell keeps its lines.
        show(render, width=240)
    return EXIT_DIFFERENCE if found.findings else EXIT_OK
