"""Says on a stream that, and for whom, a process waits: at once, when the holder changes, and now and then."""

from __future__ import annotations

from collections.abc import Callable

from harness.lock.holder import Holder


def announcer(
    write: Callable[[str], None], *, every: float = 30.0, name: str = "the GPU lock"
) -> Callable[[Holder], None]:
    """An `on_wait` for `gpu_lock` that passes one line to `write` per change of holder and per `every` seconds."""
    last: tuple[object, float] | None = None

    def on_wait(holder: Holder) -> None:
        nonlocal last
        who = (holder.path, holder.pid)
        if last is not None and last[0] == who and holder.waited - last[1] < every:
            return
        last = (who, holder.waited)
        write(f"waiting for {name} since {holder.waited:.0f} s: {holder}")

    return on_wait
