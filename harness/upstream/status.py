"""The fate of each upstream test, summed: nothing may be left over."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from harness.errors import UsageProblem
from harness.upstream.model import STATES, FileFate, OneFate, State, Status

if TYPE_CHECKING:
    from cases.upstream.inventory import Inventory, UpstreamFile, UpstreamTest


def status(engines: Collection[str] = (), states: Collection[str] = ()) -> Status:
    """The fates of the tests of `engines` (default: all) that are one of `states` (default: all).

    UsageProblem for an engine or a state that does not exist.
    """
    from cases.upstream.inventory import FILES, load_inventory

    if unknown := [state for state in states if state not in STATES]:
        raise UsageProblem(f"no fate {unknown[0]!r}: wanted {', '.join(STATES)}")
    inventories = [load_inventory(engine) for engine in engines or FILES]
    return summed(inventories, frozenset(states) or frozenset(STATES))


def summed(inventories: Iterable[Inventory], states: Collection[str] = STATES) -> Status:
    """The fates of every test of `inventories` that is one of `states`."""
    files: list[FileFate] = []
    engines: dict[str, dict[State, int]] = {}
    for inventory in inventories:
        listed = [
            found
            for retired, group in ((False, inventory.files), (True, inventory.retired))
            for file in group
            if (found := _file(inventory.engine, file, states, retired=retired)).tests
        ]
        files += listed
        tests = [test for file in listed for test in file.tests]
        engines[inventory.engine] = {state: sum(test.fate == state for test in tests) for state in STATES}
    total = {state: sum(counts[state] for counts in engines.values()) for state in STATES}
    return Status(
        total=sum(total.values()),
        ported=total["ported"],
        skipped=total["skipped"],
        not_applicable=total["not_applicable"],
        unaccounted=total["unaccounted"],
        engines=engines,
        files=tuple(files),
    )


def _file(engine: str, file: UpstreamFile, states: Collection[str], *, retired: bool) -> FileFate:
    tests = tuple(_test(test) for test in file.tests if test.fate.state in states)
    return FileFate(engine=engine, path=file.path, retired=retired, tests=tests)


def _test(test: UpstreamTest) -> OneFate:
    fate = test.fate
    return OneFate(
        name=test.name, cases=test.cases, fate=fate.state, where=fate.where, row=fate.row, reason=fate.reason
    )
