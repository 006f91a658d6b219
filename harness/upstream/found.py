"""What a test varies and asserts, in the form in which a tree and the inventory are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass

Row = tuple[str, ...]
"""One value for each name of an axis, each in canonical text (`harness.upstream.values.canonical`)."""


@dataclass(frozen=True)
class FoundAxis:
    """Names that vary together over `rows`; None where the values are not known without running the code.

    `count` is the number of rows, also where only that is known.
    """

    names: tuple[str, ...]
    rows: tuple[Row, ...] | None
    count: int | None
    loop: bool = False
    """A loop in the body of the test and not a parameter of it."""
    calls: bool = False
    """Some values are constructors' calls, which a person may have put in words."""

    def factors(self) -> tuple[FoundAxis, ...]:
        """One axis a name where the rows are a full product of them, else the axis itself."""
        if self.rows is None or len(self.names) == 1 or any(len(row) != len(self.names) for row in self.rows):
            return (self,)
        columns = [tuple(dict.fromkeys(row[at] for row in self.rows)) for at in range(len(self.names))]
        if len(set(self.rows)) != len(self.rows) or math.prod(map(len, columns)) != len(self.rows):
            return (self,)
        return tuple(
            FoundAxis((name,), tuple((value,) for value in column), len(column), self.loop, self.calls)
            for name, column in zip(self.names, columns, strict=True)
        )


@dataclass(frozen=True, order=True)
class FoundCheck:
    """One thing that a test asserts.

    `kind` is one of the inventory's. `bound` is what it allows in canonical text: `rtol=0.1, atol=0.1`, the text of a
    comparison with a number, the exception and what its words match; empty for what has none. Where a bound is a
    variable, `where` says what it is set to: name and texts.
    """

    kind: str
    bound: str = ""
    via: str = ""
    """The helper of the file in which it stands, when that is not the test itself."""
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def words(self) -> str:
        """The bound for a person: with what its variables are set to, and through which helper."""
        settings = "; ".join(f"{name}: {' | '.join(texts)}" for name, texts in self.where)
        text = self.bound or self.kind
        return f"{text} [{settings}]" if settings else text


@dataclass(frozen=True)
class FoundTest:
    """One test of a file, by the name that the inventory uses.

    `digest` is of its text and of everything of its file that it refers to: equal digests are equal tests, up to what is
    imported. `axes` and `checks` are None where nobody wrote them down.
    """

    name: str
    line: int
    axes: tuple[FoundAxis, ...] | None = ()
    checks: tuple[FoundCheck, ...] | None = ()
    always_skipped: bool = False
    digest: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    """Whatever else of it is compared, name and value: members of an enumeration, constructed cases."""
    counted: int | None = None
    """The number of cases where somebody counted them."""

    @property
    def cases(self) -> int | None:
        """How many cases its parameters make, loops apart; None when that cannot be told."""
        if self.counted is not None:
            return self.counted
        counts = [axis.count for axis in self.axes or () if not axis.loop]
        return None if self.axes is None or None in counts else math.prod(count or 0 for count in counts)


@dataclass(frozen=True)
class FoundFile:
    """The tests of one file. `constants` are bounds that stand for the whole file, name and value."""

    path: str
    tests: tuple[FoundTest, ...]
    constants: tuple[tuple[str, str], ...] = ()

    def test(self, name: str) -> FoundTest | None:
        """The test of that name, or None."""
        return next((test for test in self.tests if test.name == name), None)
