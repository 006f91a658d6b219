"""Siblings that are tried with less: a backend or an encoding whose axes have fewer values than the others'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harness.audit.collected import CollectedFamily
from harness.audit.families import FamilyFinding
from harness.plugin.expectations import PLACEHOLDERS

CODE = "narrower-sibling"
_MOST_NAMED = 8


@dataclass
class _Tried:
    """The values of an axis that one backend and encoding are tried with, by whatever family; `kept` are those of its
    cases, without what is refused."""

    values: dict[str, None] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    families: list[tuple[int, CollectedFamily]] = field(default_factory=list)

    @property
    def main(self) -> CollectedFamily:
        """The family that tries most of them."""
        return max(self.families, key=lambda pair: pair[0])[1]


def find(families: Iterable[CollectedFamily]) -> list[FamilyFinding]:
    """One finding for a backend, a set of its encodings and an axis that has fewer values there than somewhere else.

    Siblings are of one op, one dimension, one dialect and one set of upstream tests; compared are axes of one name, over
    all families that have it. A value that `Family.refuse` refuses with a reason counts as tried, for the encoding wherever
    it runs.
    """
    groups: dict[tuple[str, tuple[object, ...]], list[CollectedFamily]] = defaultdict(list)
    found: list[FamilyFinding] = []
    for family in families:
        found += _unexplained(family)
        upstream = frozenset((each.engine, each.file, each.test) for each in family.upstream)
        for dialect in sorted({_dialect(reach.encoding) for reach in family.reach}):
            groups[dialect, (family.op, family.dimension, upstream)].append(family)
    for (dialect, _), members in groups.items():
        for axis in dict.fromkeys(reach.axis for family in members for reach in family.reach):
            found += _narrower(axis, dialect, members)
    return found


def _narrower(axis: str, dialect: str, families: list[CollectedFamily]) -> Iterator[FamilyFinding]:
    tried: dict[tuple[str, str], _Tried] = defaultdict(_Tried)
    refused: dict[str, dict[str, None]] = defaultdict(dict)
    for family in families:
        for reach in family.reach:
            if reach.axis == axis and _dialect(reach.encoding) == dialect:
                entry = tried[reach.backend, reach.encoding]
                entry.values.update(dict.fromkeys(reach.kept))
                entry.kept.update(reach.kept)
                entry.families.append((len(reach.kept), family))
                # Without a reason it is a finding of its own.
                refused[reach.encoding].update(dict.fromkeys(reach.refused))
    for (_, encoding), entry in tried.items():
        entry.values.update(refused[encoding])
    (widest_on, widest_of), widest = max(
        tried.items(), key=lambda pair: (len(pair[1].values), len(pair[1].kept))
    )
    fewer: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (backend, encoding), entry in tried.items():
        if len(entry.values) < len(widest.values):
            fewer[backend, entry.main.name, tuple(sorted(entry.values))].append(encoding)
    for (backend, name, _), encodings in fewer.items():
        entry = tried[backend, encodings[0]]
        words = (
            f"{axis}: {name} on {backend} tries {len(entry.values)} ({_some(encodings)}), "
            f"{widest.main.name} on {widest_on} {len(widest.values)} ({widest_of}); "
            f"not tried: {_some([value for value in widest.values if value not in entry.values])}"
        )
        yield FamilyFinding(CODE, entry.main, axis, words)


def _unexplained(family: CollectedFamily) -> Iterator[FamilyFinding]:
    """Values that are refused without a reason: nobody can tell them from forgotten ones."""
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for reach in family.reach:
        for value in reach.refused.keys() - _explained(reach.refused):
            seen[reach.axis, value].append(reach.encoding or reach.backend)
    for (axis, value), where in sorted(seen.items()):
        words = f"{family.name} refuses {axis} = {value} without a reason for {_some(where)}"
        yield FamilyFinding(CODE, family, axis, words)


def _explained(refused: dict[str, str]) -> list[str]:
    return [
        value for value, why in refused.items() if why.strip() and not PLACEHOLDERS & set(why.lower().split())
    ]


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _dialect(encoding: str) -> str:
    return encoding.partition(".")[0]
