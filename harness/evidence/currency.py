"""Whether evidence still speaks about the tree as it is: the same required cases, the same code, the same pins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageProblem
from harness.evidence.claims import Cell, family_part
from harness.evidence.ledger_lines import OWN_PACKAGE, FamilyPart, Record
from harness.evidence.record import Judge
from harness.evidence.required import Required


@dataclass(frozen=True)
class Currency:
    """`missing`: families with required cases that the evidence says nothing about; `outdated`: what has changed since."""

    missing: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()


def required_parts(cell: Cell, required: Required) -> dict[str, FamilyPart]:
    """What the cell requires of each family, as the tree is now; empty when no case belongs to it."""
    return {name: family_part(cases, required) for name, cases in required.cells.get(cell, {}).items()}


def currency(record: Record, now: Mapping[str, FamilyPart]) -> Currency:
    """Hold a record of the ledger against what its cell requires now (`required_parts`)."""
    missing, outdated = [], []
    for name, part in now.items():
        then = record.families.get(name)
        if then is None:
            missing.append(f"no evidence for the {part.cases} cases of {name}")
        elif then.ids != part.ids:
            outdated.append(f"other cases of {name} are required ({then.cases} then, {part.cases} now)")
        elif then.code != part.code:
            outdated.append(f"the code of {name} has changed")
    outdated += [f"{name} is no longer required" for name in sorted(set(record.families) - set(now))]
    for name, pin in sorted(record.pins.items()):
        outdated += _pin_changes(name, pin.package, pin.version, pin.wheels, pin.worker)
    return Currency(tuple(missing), tuple(outdated))


def judge_changes(judge: Judge) -> list[str]:
    """In which fields the pin that judged differs from the pin of the tree, in words."""
    return _pin_changes(judge.pin, judge.package, judge.version, (judge.wheel_sha256,), judge.worker_sha256)


def _pin_changes(name: str, package: str, version: str, wheels: tuple[str, ...], worker: str) -> list[str]:
    if package == OWN_PACKAGE:
        return []
    from oracles.pins import pin

    try:
        current = pin(name)
    except UsageProblem:
        return [f"there is no pin {name} any more"]
    changes = [
        f"{name}: {what} was {then}, is {there}"
        for what, then, there in (
            ("package", package, current.package),
            ("version", version, current.version),
        )
        if then != there
    ]
    for wheel in wheels if current.wheels else ():
        if wheel not in current.wheels.values():
            changes.append(f"{name}: the wheel was {wheel[:8] or 'unknown'}, which is not pinned")
    digest = current.worker_sha256()
    if worker != digest:
        changes.append(f"{name}: the worker was {worker[:8] or 'unknown'}, is {digest[:8]}")
    return changes
