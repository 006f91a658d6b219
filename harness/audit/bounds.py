"""Bounds of families against those of the upstream tests that they descend from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.audit.bound_terms import exact, terms
from harness.audit.collected import CollectedAncestor, CollectedFamily
from harness.audit.families import FamilyFinding

CODE = "loose-bound"


@dataclass(frozen=True)
class Bounds:
    """`compared` and `not_comparable` count pairs of a family and an upstream test."""

    findings: tuple[FamilyFinding, ...]
    compared: int
    not_comparable: tuple[str, ...]


def find(families: Iterable[CollectedFamily]) -> Bounds:
    """One finding a family whose bound lets through what an upstream test of it would not.

    Comparable are: a bound of ours that asks for the same bits, against anything; and two that limit the same thing
    (`harness.audit.bound_terms`) by a number. Every other pair is counted, never taken for right: whether upstream's
    bound holds too is then for the verdict to say (`upstream_bound_holds`).
    """
    findings = []
    compared, open_pairs = 0, []
    for family in families:
        for ancestor in family.upstream:
            ours, theirs = terms(family.bound), _terms_of(ancestor)
            shared = sorted(ours.keys() & theirs)
            if exact(family.bound):
                compared += 1
            elif not shared:
                open_pairs.append(f"{family.name}: {family.bound} against {ancestor.bound or 'no number'}")
            else:
                compared += 1
                findings += [
                    FamilyFinding(
                        CODE,
                        family,
                        kind,
                        f"{family.name} allows {kind} {ours[kind]:g}, {ancestor.engine}'s {ancestor.test}"
                        f" ({ancestor.file}) {theirs[kind]:g}",
                    )
                    for kind in shared
                    if ours[kind] > theirs[kind]
                ]
    return Bounds(tuple(findings), compared, tuple(open_pairs))


def _terms_of(ancestor: CollectedAncestor) -> dict[str, float]:
    """The numbers in the family's own words about upstream's bound; without words, those of the inventory."""
    if ancestor.bound is not None:
        return terms(ancestor.bound)
    given = {"rtol": ancestor.rtol, "atol": ancestor.atol}
    return {kind: value for kind, value in given.items() if value is not None}
