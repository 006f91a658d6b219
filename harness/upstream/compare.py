"""What one set of tests adds, removes, varies otherwise or bounds otherwise than another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from harness.upstream.found import FoundAxis, FoundCheck, FoundFile, FoundTest
from harness.upstream.known import COUNTED
from harness.upstream.model import (
    AxisChange,
    BoundChange,
    ChangedTest,
    DiffCounts,
    FileChange,
    NamedTest,
    Uncompared,
)

MOST_VALUES = 12
"""Values gained or lost that a report lists of one axis; the rest are counted."""


class Comparison:
    """Collects the differences between `was` and `now`, file by file. `loops`: axes of the old side may be loops."""

    def __init__(self, was: Mapping[str, FoundFile], now: Mapping[str, FoundFile], *, loops: bool) -> None:
        self._loops = loops
        self.added_files: list[FileChange] = []
        self.removed_files: list[FileChange] = []
        self.added_tests: list[NamedTest] = []
        self.removed_tests: list[NamedTest] = []
        self.changed: list[ChangedTest] = []
        self.text_only: list[NamedTest] = []
        self.not_comparable: list[Uncompared] = []
        self.compared = Counter[str]()
        for path in sorted(set(was) | set(now)):
            if path not in now:
                self.removed_files.append(_whole(was[path]))
            elif path not in was:
                self.added_files.append(_whole(now[path]))
            else:
                self._file(was[path], now[path])

    def counts(self) -> DiffCounts:
        """How much was compared, and how much differs."""
        return DiffCounts(
            files=self.compared["files"],
            tests=self.compared["tests"],
            same=self.compared["same"],
            axes=self.compared["axes"],
            checks=self.compared["checks"],
            added_files=len(self.added_files),
            removed_files=len(self.removed_files),
            added_tests=len(self.added_tests) + sum(len(file.tests) for file in self.added_files),
            removed_tests=len(self.removed_tests) + sum(len(file.tests) for file in self.removed_files),
            reparametrised=sum(bool(change.axes) for change in self.changed),
            rebounded=sum(bool(change.bounds) for change in self.changed),
            text_only=len(self.text_only),
            not_comparable=len(self.not_comparable),
        )

    def _file(self, was: FoundFile, now: FoundFile) -> None:
        self.compared["files"] += 1
        constants = tuple(_facts(dict(was.constants), dict(now.constants)))
        if constants:
            self.changed.append(ChangedTest(path=was.path, test="(file)", axes=(), bounds=constants))
        for test in was.tests:
            other = now.test(test.name)
            if other is None:
                self.removed_tests.append(NamedTest(path=was.path, test=test.name, cases=test.cases))
            else:
                self._test(was.path, test, other)
        for test in now.tests:
            if was.test(test.name) is None:
                self.added_tests.append(NamedTest(path=now.path, test=test.name, cases=test.cases))

    def _test(self, path: str, was: FoundTest, now: FoundTest) -> None:
        self.compared["tests"] += 1
        if was.digest is not None and was.digest == now.digest:
            self.compared["same"] += 1
        axes = tuple(self._axes(path, was, now))
        bounds = tuple(self._bounds(path, was, now))
        if was.always_skipped != now.always_skipped:
            words = {True: "always skipped", False: "runs"}
            bounds += (
                BoundChange(
                    kind="skip", was=words[was.always_skipped], now=words[now.always_skipped], via=None
                ),
            )
        if axes or bounds:
            self.changed.append(ChangedTest(path=path, test=was.name, axes=axes, bounds=bounds))
        elif was.digest is not None and was.digest != now.digest:
            self.text_only.append(NamedTest(path=path, test=was.name, cases=now.cases))

    def _axes(self, path: str, was: FoundTest, now: FoundTest) -> Iterator[AxisChange]:
        if was.axes is None or now.axes is None:
            if was.digest != now.digest or was.digest is None:
                self._uncomparable(
                    path, was.name, "its parameters were not written down, and its text differs"
                )
            return
        old = {axis.names: axis for axis in was.axes}
        new = {axis.names: axis for axis in now.axes}
        single = (
            {part.names: part for axis in now.axes if axis.loop for part in axis.factors()}
            if self._loops
            else {}
        )
        for names, axis in old.items():
            other = new.get(names) or single.get(names)
            if other is not None:
                yield from self._axis(path, was, now, axis, other)
            elif self._loops or axis.loop:
                self._described(path, was, now, axis)
            else:
                yield _axis_change(axis, None)
        for names, axis in new.items():
            if names not in old and not axis.loop:
                yield _axis_change(None, axis)

    def _axis(
        self, path: str, was: FoundTest, now: FoundTest, old: FoundAxis, new: FoundAxis
    ) -> Iterator[AxisChange]:
        if new.calls and old.count == new.count and old.rows != new.rows:
            self._described(path, was, now, old)
        elif old.rows is not None and new.rows is not None:
            self.compared["axes"] += 1
            if Counter(old.rows) != Counter(new.rows):
                yield _axis_change(old, new)
        elif old.count is not None and new.count is not None and old.count != new.count:
            yield _axis_change(old, new)
        else:
            self._described(path, was, now, old)

    def _described(self, path: str, was: FoundTest, now: FoundTest, axis: FoundAxis) -> None:
        """An axis that only words describe, or that only running would tell: the same as long as the text is."""
        if was.digest is not None and was.digest == now.digest:
            self.compared["axes"] += 1
        else:
            self._uncomparable(
                path, was.name, f"what {', '.join(axis.names)} goes through is not told by the source"
            )

    def _bounds(self, path: str, was: FoundTest, now: FoundTest) -> Iterator[BoundChange]:
        yield from _facts(dict(was.facts), dict(now.facts))
        if was.checks is None or now.checks is None:
            if (was.checks or now.checks) and (was.digest is None or was.digest != now.digest):
                self._uncomparable(path, was.name, "its checks were not written down, and its text differs")
            return
        self.compared["checks"] += len(set(was.checks))
        yield from check_changes(was.checks, now.checks)

    def _uncomparable(self, path: str, test: str, reason: str) -> None:
        self.not_comparable.append(Uncompared(path=path, test=test, reason=reason))


def check_changes(was: tuple[FoundCheck, ...], now: tuple[FoundCheck, ...]) -> Iterator[BoundChange]:
    """Checks gone, new, or bounded otherwise. One gone and one new of a kind and helper are one change."""
    old, new = _distinct(was), _distinct(now)
    gone = [check for check in old if check not in new]
    come = [check for check in new if check not in old]
    for check in gone:
        partner = next((each for each in come if (each.kind, each.via) == (check.kind, check.via)), None)
        if partner is not None:
            come.remove(partner)
        yield BoundChange(
            kind=check.kind,
            was=check.words(),
            now=None if partner is None else partner.words(),
            via=check.via or None,
        )
    for check in come:
        yield BoundChange(kind=check.kind, was=None, now=check.words(), via=check.via or None)


def _distinct(checks: tuple[FoundCheck, ...]) -> list[FoundCheck]:
    """Each check once, except that of the kinds without a bound the number counts."""
    counted = Counter((check.kind, check.via) for check in checks if check.kind in COUNTED)
    plain = [check for check in dict.fromkeys(checks) if check.kind not in COUNTED]
    return plain + [
        FoundCheck(kind, f"{number} {kind}", via) for (kind, via), number in sorted(counted.items())
    ]


def _facts(was: dict[str, str], now: dict[str, str]) -> Iterator[BoundChange]:
    for name in sorted(was.keys() | now.keys()):
        old, new = was.get(name), now.get(name)
        if old == new:
            continue
        if old is not None and new is not None and (name.startswith("enum ") or ", " in old):
            before, after = old.split(", "), new.split(", ")
            gained = ", ".join(value for value in after if value not in before)
            lost = ", ".join(value for value in before if value not in after)
            if gained or lost:
                yield BoundChange(kind=name, was=lost or None, now=gained or None, via=None)
                continue
        yield BoundChange(kind=name, was=old, now=new, via=None)


def _axis_change(was: FoundAxis | None, now: FoundAxis | None) -> AxisChange:
    names = (now or was or FoundAxis((), None, None)).names
    old, new = was.rows if was else None, now.rows if now else None
    if was is None or now is None:
        gained, lost = _shown(new or ()), _shown(old or ())
    else:
        gained, lost = _by_name(names, old or (), new or ())
    return AxisChange(
        names=names,
        was=was.count if was else None,
        now=now.count if now else None,
        gained=gained,
        lost=lost,
    )


def _by_name(
    names: tuple[str, ...], old: tuple[tuple[str, ...], ...], new: tuple[tuple[str, ...], ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Values gained and lost: those of single names where that says it, else whole rows."""
    gained, lost = [], []
    if len(names) > 1:
        for at, name in enumerate(names):
            before = dict.fromkeys(row[at] for row in old if len(row) == len(names))
            after = dict.fromkeys(row[at] for row in new if len(row) == len(names))
            gained += [f"{name}={value}" for value in after if value not in before]
            lost += [f"{name}={value}" for value in before if value not in after]
    if not gained and not lost:
        gained = [", ".join(row) for row in dict.fromkeys(new) if row not in set(old)]
        lost = [", ".join(row) for row in dict.fromkeys(old) if row not in set(new)]
    return _cut(gained), _cut(lost)


def _shown(rows: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return _cut([", ".join(row) for row in dict.fromkeys(rows)])


def _cut(values: list[str]) -> tuple[str, ...]:
    left = len(values) - MOST_VALUES
    return tuple(values) if left <= 0 else (*values[:MOST_VALUES], f"and {left} more")


def _whole(file: FoundFile) -> FileChange:
    return FileChange(
        path=file.path,
        tests=tuple(test.name for test in file.tests),
        cases=[test.cases for test in file.tests],
    )
