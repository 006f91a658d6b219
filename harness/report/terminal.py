"""Tables for people: as wide as the terminal, or whole and without trailing blanks where there is none."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import click
from rich.console import Console


def show(render: Callable[[Console], None], width: int) -> None:
    """Let `render` write to a console on standard output; into a pipe or a file `width` columns wide.

    Raises BrokenPipeError when the reader has left.
    """
    if sys.stdout.isatty():
        render(Console())
        return
    text = io.StringIO()
    render(Console(file=text, width=width))
    for line in text.getvalue().splitlines():
        click.echo(line.rstrip())
