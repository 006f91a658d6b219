"""`harness`: one verb a module, imported only when it is called, so that `--help` stays fast."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from harness import __version__
from harness.errors import HarnessError

# verb -> (module under harness.cli, one line for --help)
VERBS: dict[str, tuple[str, str]] = {
    "compare": ("compare", "Compare a checkpoint, top to bottom, with a pinned engine."),
    "rows": ("rows", "List the coverage rows: what can be claimed, where, judged by which oracle."),
    "matrix": ("matrix", "Show what each row may claim: computed from evidence, never typed."),
    "results": ("results", "List, show, compare, merge and promote the runs that cases leave behind."),
    "oracles": ("oracles", "List, install and check the pinned engines."),
    "lock": ("lock", "Run a command under the GPU lock."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on first use and listed from `VERBS` alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"harness.cli.{VERBS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has left (`| head`): no difference was found, so not 1 but what a shell reports.
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
            raise SystemExit(128 + signal.SIGPIPE) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Differential oracle harness for LLM quantization.

    Does a decode or a kernel compute what llama.cpp, vLLM and MLX compute?
    Exit: 0 as expected, 1 a difference, 2 bad usage or input, 3 the harness could not do its work.
    """


def main() -> None:
    """Entry point: every expected error becomes one line on stderr and the exit code of its class."""
    try:
        status = cli.main(standalone_mode=False)
    except HarnessError as error:
        click.echo(f"harness: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("harness: interrupted", err=True)
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)
