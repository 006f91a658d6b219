"""`harness`: one verb a module, imported only when it is called, so that `--help` stays fast."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from harness import __version__
from harness.errors import HarnessError
from harness.text import printable

# verb -> (module under harness.cli, one line for --help)
VERBS: dict[str, tuple[str, str]] = {
    "compare": ("compare", "Compare a checkpoint, top to bottom, with a pinned engine."),
    "rows": ("rows", "List the coverage rows: what can be claimed, where, judged by which oracle."),
    "matrix": ("matrix", "Show what each row may claim: computed from evidence, never typed."),
    "audit": ("audit", "Show what the suite skips, why, for which row, and what would hide a failure."),
    "results": ("results", "List, show, compare, merge and promote the runs that cases leave behind."),
    "oracles": ("oracles", "List, install and check the pinned engines."),
    "bench": ("bench", "Time kernels against the pinned engines, verified first, under a lock."),
    "lock": ("lock", "Run a command under the GPU lock."),
    "cache": ("cache", "Show what the harness keeps outside the repository, and make it smaller."),
    "upstream": ("upstream", "Show what became of each upstream test, and what another release changes."),
    "drift": ("drift", "Find what in a tree no longer fits together: what must go with a retired encoding."),
    "new-format": (
        "new_format",
        "Begin an encoding or a method: all its parts, as stubs that fail until written.",
    ),
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
    """Entry point: every error becomes one line on stderr and the exit code of its class, never a traceback.

    HARNESS_TRACEBACK=1 shows where an error of the harness itself comes from.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    status = _status()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        status = _cannot_write(error)
    _leave(status)


def _status() -> int:
    try:
        if sys.stdout is None:
            _complain("standard output is closed: there is nowhere to write to")
            return HarnessError.exit_code
        status = cli.main(standalone_mode=False)
    except HarnessError as error:
        _complain(str(error))
        return error.exit_code
    except click.ClickException as error:
        _complain(error.format_message()) if sys.stderr is None else error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted")
        return 128 + signal.SIGINT
    except OSError as error:
        return _cannot_write(error)
    except Exception as error:  # exit 1 would say "a difference"
        if os.environ.get("HARNESS_TRACEBACK"):
            raise
        words = printable(f"{type(error).__name__}: {error}")
        _complain(f"{words} (a defect of the harness; HARNESS_TRACEBACK=1 shows where)")
        return HarnessError.exit_code
    return status if isinstance(status, int) else 0


def _cannot_write(error: OSError) -> int:
    name = f"{error.filename}: " if error.filename else ""
    _complain(f"{name}{error.strerror or error}")
    return HarnessError.exit_code


def _complain(words: str) -> None:
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            click.echo(f"harness: {words}", err=True)


def _leave(status: int) -> None:
    """End without a second attempt to flush a stream that cannot be written."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.flush()
    sys.stdout = None
    sys.exit(status)
