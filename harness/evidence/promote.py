"""From a run to the ledger: what may be claimed for good, and why the rest may not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from harness.errors import BadInput, Unavailable, UsageProblem
from harness.evidence import git
from harness.evidence.claims import Blocked, Cell, claims_of
from harness.evidence.currency import judge_changes
from harness.evidence.ledger import LEDGER, Ledger, append, compact, read_ledger, sha256
from harness.evidence.ledger_lines import Record
from harness.evidence.record import Judge
from harness.evidence.required import load_required
from harness.evidence.run import VERDICTS, Run
from harness.paths import REPOSITORY

LOCK_SECONDS = 60
_NAMED = 5


@dataclass(frozen=True)
class Promotion:
    """`added` records; `unchanged` cells whose newest record says the same already; `blocked` cells, each with its reason."""

    added: tuple[Record, ...]
    unchanged: tuple[Cell, ...]
    blocked: tuple[Blocked, ...]
    ledger: Ledger


def promote(run: Run, root: Path = REPOSITORY, *, compacted: bool = False) -> Promotion:
    """Append what `run` shows to the ledger of the tree at `root`. Cells that are not complete are left out, and said.

    Refused as a whole: a run that has not ended; code that is not committed, now or when the run was made; a judge that answered from the memo;
    evidence made at another pin; a ledger that was edited. Raises UsageProblem, BadInput or Unavailable.

    With `compacted` the file begins anew with the newest lines before anything is added.
    """
    lock = root / "results" / "runs" / ".promote.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=LOCK_SECONDS):
            return _promote(run, root, compacted)
    except Timeout:
        raise Unavailable(f"another promotion has held {lock} for {LOCK_SECONDS} s") from None


def _promote(run: Run, root: Path, compacted: bool) -> Promotion:
    ledger = read_ledger(root)
    run.manifest.refuse_unclosed("promote")
    _refuse_uncommitted(run, root)
    _refuse_rewritten(ledger, root, compacted)
    refuse_judges(run)
    claims = claims_of(run, load_required(root))
    if compacted:
        ledger = compact(ledger, root)
    newest = ledger.newest()
    added: list[Record] = []
    unchanged: list[Cell] = []
    for cell, record in claims.records.items():
        before = _before(cell, record, newest.get(cell, {}))
        if before is not None and before.says() == record.says():
            unchanged.append(cell)
        else:
            added.append(record)
    if added:
        ledger = append(added, ledger, root)
    return Promotion(tuple(added), tuple(unchanged), claims.blocked, ledger)


def _before(cell: Cell, record: Record, devices: Mapping[tuple[str, ...], Record]) -> Record | None:
    """The record that this one would repeat. On the CPU the newest one alone speaks, whatever it skips."""
    if cell[2] == "cpu":
        return max(devices.values(), key=lambda found: found.first, default=None)
    return devices.get(record.devices)


def refuse_judges(run: Run) -> None:
    """Raise BadInput for the first verdict whose judge answered from the memo or is another pin than the tree's."""
    checked: dict[Judge, list[str]] = {}
    for case, entry in run.evidence.items():
        for judge in entry.judges:
            if not judge.live:
                raise BadInput(
                    file=run.path / VERDICTS,
                    field=f"case {case}, judges, {judge.pin}, live",
                    got="an answer from the memo",
                    wanted="a live answer: run again with --refresh",
                )
            if judge not in checked:
                checked[judge] = judge_changes(judge)
            if checked[judge]:
                raise BadInput(
                    file=run.path / VERDICTS,
                    field=f"case {case}, judges",
                    got="; ".join(checked[judge]),
                    wanted="evidence made at the pins of this tree: run again",
                )


def _refuse_uncommitted(run: Run, root: Path) -> None:
    if None in run.manifest.commits:
        raise UsageProblem(f"run {run.manifest.id} was made outside a git repository: nobody could repeat it")
    then = run.manifest.uncommitted
    if then:
        raise UsageProblem(
            f"run {run.manifest.id} was made with uncommitted code ({_names(then)}): commit, and run again"
        )
    now = git.uncommitted(root)
    if now:
        raise UsageProblem(
            f"uncommitted code: {_names(now)}: commit it first, and run again if cases depend on it"
        )


def _refuse_rewritten(ledger: Ledger, root: Path, compacted: bool) -> None:
    """The committed ledger has to be the beginning of this one, or what this one goes on from."""
    committed = git.committed_file(root, LEDGER.as_posix())
    current = "".join(f"{text}\n" for text in ledger.texts).encode()
    if compacted and (committed or b"") != current:
        raise UsageProblem(f"{LEDGER} is not as committed: commit it before it is compacted")
    if committed is None:
        return
    last = sha256(committed.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2])
    goes_on = ledger.head.before is not None and ledger.head.before.sha256 == last
    if not current.startswith(committed) and not goes_on:
        raise BadInput(
            file=root / LEDGER,
            field="(beginning)",
            got="other lines than the commit holds",
            wanted="the committed lines, with new ones after them: the ledger is only appended to",
            hint="after a merge, keep one side and promote the other side's run again",
        )


def _names(files: Iterable[str]) -> str:
    listed = list(files)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more
