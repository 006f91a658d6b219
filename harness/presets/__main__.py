"""`python -m harness.presets MODEL.gguf PRESET`: the encoding of each tensor under a preset, and why."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from harness.errors import HarnessError
from harness.presets.model import Model
from harness.presets.select import Selected


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("preset")
@click.option("--imatrix", is_flag=True, help="As if an importance matrix were given.")
@click.option("--pure", is_flag=True, help="The preset's default for every weight.")
@click.option(
    "--tensor-type",
    "overrides",
    metavar="PATTERN=ENCODING",
    multiple=True,
    help="The encoding of the tensors in whose name the pattern is found, such as ffn_down=ggml.q8_0.",
)
@click.option("--dry-run", is_flag=True, help="Choose even where an importance matrix is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    model: Path,
    preset: str,
    imatrix: bool,
    pure: bool,
    overrides: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say which encoding llama.cpp's quantizer gives each tensor of the GGUF file MODEL under PRESET, and why.

    Nothing is written, and nothing but the header is read.
    """
    from harness.containers import open_checkpoint
    from harness.presets.model import read_model
    from harness.presets.select import select_types
    from harness.report.strict_json import dumps

    given = [_override(text) for text in overrides]
    with open_checkpoint(model) as checkpoint:
        found = read_model(checkpoint)
    chosen = select_types(preset, found, imatrix=imatrix, pure=pure, overrides=given, dry_run=dry_run)
    if as_json:
        click.echo(dumps(_document(preset, found, chosen)), nl=False)
    else:
        _print(preset, found, chosen)


def _override(text: str) -> tuple[str, str]:
    pattern, sign, encoding = text.rpartition("=")
    if not sign:
        raise click.BadParameter(f"{text!r}: wanted PATTERN=ENCODING", param_hint="--tensor-type")
    return pattern, encoding if "." in encoding else f"ggml.{encoding.lower()}"


def _document(preset: str, model: Model, chosen: Mapping[str, Selected]) -> dict[str, object]:
    stored = {tensor.name: tensor for tensor in model.tensors}
    return {
        "schema": "harness-presets/1",
        "file": model.file,
        "architecture": model.architecture,
        "preset": preset,
        "tensors": [
            {
                "name": name,
                "shape": stored[name].shape,
                "stored": stored[name].encoding,
                "encoding": selected.encoding,
                "because": selected.because,
                "needs_imatrix": selected.needs_imatrix,
            }
            for name, selected in chosen.items()
        ],
    }


def _print(preset: str, model: Model, chosen: Mapping[str, Selected]) -> None:
    from collections import Counter

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from harness.report.terminal import show
    from harness.text import printable

    stored = {tensor.name: tensor for tensor in model.tensors}
    table = Table("tensor", "columns", "stored", "encoding", "because")
    for name, selected in chosen.items():
        tensor = stored[name]
        shown = [printable(name), str(tensor.columns), tensor.encoding, selected.encoding, selected.because]
        table.add_row(*map(escape, shown))
    counts = Counter(selected.encoding for selected in chosen.values())
    summary = ", ".join(f"{count} {encoding}" for encoding, count in counts.most_common())

    def render(console: Console) -> None:
        console.print(table)
        console.print(f"{preset}: {summary}", highlight=False, markup=False)

    show(render, width=240)


def run() -> int:
    """Run the command; its exit code is that of the error where there is one."""
    try:
        main.main(standalone_mode=False)
    except HarnessError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
