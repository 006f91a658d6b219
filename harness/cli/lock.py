"""`harness lock`: run a command under the GPU lock."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys

import click

from harness.errors import UsageProblem
from harness.lock.acquire import take
from harness.lock.announce import announcer
from harness.text import printable

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_BY_SIGNAL = 128

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

# si_code of a signal that the kernel itself sent, such as Ctrl-C on a terminal (Linux, asm-generic/siginfo.h).
_SI_KERNEL = 0x80


@click.command(
    name="lock",
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
@click.option(
    "--shared", is_flag=True, help="Correctness work: share the machine with work on other devices."
)
@click.option(
    "--device", "devices", multiple=True, metavar="UUID", help="With --shared: a device that CMD uses."
)
@click.option("--timeout", type=float, metavar="S", help="Give up after S seconds (exit 3). Default: wait.")
@click.argument("cmd", nargs=-1, required=True, type=click.UNPROCESSED)
def command(shared: bool, devices: tuple[str, ...], timeout: float | None, cmd: tuple[str, ...]) -> int:
    """Run CMD while holding the GPU lock, and return its status.

    Without --shared the machine is CMD's alone, as a timed series needs it. The lock is that of
    `flock /tmp/gpu CMD` (HARNESS_GPU_LOCK names another file); CMD and what it starts recognise it.

    Exit: the status of CMD; 128 + N when signal N ended it; 127 when it was not found, 126 when it cannot be run;
    2 bad usage; 3 the lock was not had.
    """
    if devices and not shared:
        raise UsageProblem("--device goes with --shared: without it, CMD has every device")
    held = take(
        "correctness" if shared else "timed",
        devices,
        timeout=timeout,
        on_wait=announcer(lambda line: click.echo(f"harness lock: {line}", err=True)),
        turn=False,
    )
    try:
        # A child that has the descriptors keeps the lock even if this process is killed.
        for fd in held.pass_fds:
            os.set_inheritable(fd, True)
        status = _run(cmd)
        reason = held.check()
        if reason is not None:
            click.echo(f"harness lock: the lock was lost while CMD ran: {reason}; timings are void", err=True)
    finally:
        # Not unlocked, as `flock` does not either: what CMD left running in the background may still use the GPU.
        held.release(unlock=False)
    return status


def _run(cmd: tuple[str, ...]) -> int:
    """The status of `cmd` as a shell gives it. Signals to this process reach `cmd`; the terminal stays its own."""
    # A signal that is ignored, or is by default, does not wake sigwait everywhere.
    on_child = signal.signal(signal.SIGCHLD, lambda *_: None)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    try:
        # Not `subprocess`: it closes the descriptors that the caller meant for CMD (a job server's, <(…) of a shell)
        # and would hand our signal mask on. SIGPIPE: Python ignores it, CMD should not.
        child = os.posix_spawnp(
            cmd[0], cmd, os.environ, setsigmask=before, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ)
        )
    except (OSError, ValueError) as error:
        return _not_started(cmd[0], error)
    else:
        return _follow(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGCHLD, on_child)


def _follow(child: int) -> int:
    while True:
        received, from_terminal = _next_signal()
        if received != signal.SIGCHLD:
            if not from_terminal:
                with contextlib.suppress(PermissionError):  # CMD may run as another user (sudo)
                    os.kill(child, received)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else _BY_SIGNAL - code


def _next_signal() -> tuple[int, bool]:
    """The next signal, and whether the terminal sent it: then CMD, in the same process group, has it already."""
    awaited = {*_FORWARDED, signal.SIGCHLD}
    if sys.platform != "darwin":
        info = signal.sigwaitinfo(awaited)
        return info.si_signo, info.si_code == _SI_KERNEL
    received = signal.sigwait(awaited)
    return received, received in (signal.SIGINT, signal.SIGQUIT) and _in_foreground()


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _not_started(name: str, error: OSError | ValueError) -> int:
    shown = printable(name)
    why = (error.strerror if isinstance(error, OSError) else str(error)) or "cannot be run"
    missing = isinstance(error, OSError) and error.errno == errno.ENOENT
    if missing and "/" not in name:
        why = "command not found"
    click.echo(f"harness lock: {shown}: {printable(why)}", err=True)
    return _NOT_FOUND if missing else _NOT_EXECUTABLE
