"""`harness drift`: what in a tree no longer fits together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.errors import UsageProblem
from harness.verdicts import EXIT_DIFFERENCE, EXIT_OK

if TYPE_CHECKING:
    from harness.drift.findings import Finding

_HEADINGS = {"error": "to change", "warning": "to look at", "note": "stays"}


@click.command("drift")
@click.argument("tree", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--retire", "name", metavar="NAME", help="List what names an encoding whose unit is to go, or is gone."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def command(tree: Path, name: str | None, as_json: bool) -> int:
    """Find what in TREE no longer fits together. Exit 1 when something has to be changed or looked at.

    --retire NAME: delete the unit's folder, then do what this lists until it lists nothing but what stays.
    """
    from harness.drift.findings import Severity, document
    from harness.drift.retire import LAYOUT, retire
    from harness.report.strict_json import dumps

    if name is None:
        raise UsageProblem("harness drift: say what to look for: --retire NAME")
    root = tree.absolute()
    encoding, findings = retire(root, name)
    if as_json:
        click.echo(dumps(document(root, LAYOUT, findings)), nl=False)
    else:
        _show(encoding, findings)
    return EXIT_DIFFERENCE if any(found.severity is not Severity.NOTE for found in findings) else EXIT_OK


def _show(encoding: str, findings: tuple[Finding, ...]) -> None:
    from harness.drift.findings import Severity, lines_of
    from harness.text import printable

    for severity in Severity:
        found = [finding for finding in findings if finding.severity is severity]
        if not found:
            continue
        click.echo(f"{_HEADINGS[severity.value]}: {len(found)}")
        summary = ""
        for finding in found:
            if finding.summary != summary:
                summary = finding.summary
                click.echo(f"  {finding.kind}: {summary}")
            click.echo(f"    {printable(lines_of(finding.evidence), 400)}")
    counts = {severity: sum(finding.severity is severity for finding in findings) for severity in Severity}
    words = ", ".join(f"{counts[severity]} {_HEADINGS[severity.value]}" for severity in Severity)
    click.echo(f"{encoding}: {words}")
