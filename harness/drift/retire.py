"""What names an encoding, and so has to go, or to be looked at, when its unit does.

A unit is found by its folder, so that deleting the folder retires it. What is left then is what says its name elsewhere:
rows, presets, lists of required cases, recipes, upstream's tests, documents. `RULES` says what becomes of each.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from harness.containers.ggml_types import ggml_types
from harness.drift.findings import Finding, Severity
from harness.errors import UsageProblem
from kernels.units import TYPE_BYTES, Unit, load_units

LAYOUT = "quant-oracle-harness"
_OURS = ("kernels", "cases", "harness/rows/data")
_ENCODING = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
_SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist", "runs"})


@dataclass(frozen=True)
class Rule:
    """Which files (a glob over paths) a mention is found in, what kind of thing it is, and what becomes of it."""

    files: str
    kind: str
    severity: Severity
    summary: str


RULES = (
    Rule("results/ledger/*", "ledger", Severity.NOTE, "past evidence: kept, and claims nothing any more"),
    Rule(
        "harness/containers/ggml_types.yaml",
        "container",
        Severity.NOTE,
        "a file may still hold the type: its number and size stay, nothing decodes it",
    ),
    Rule("cases/upstream/*.csv", "upstream", Severity.NOTE, "what upstream tests: kept, no case comes of it"),
    Rule("cases/upstream/type_snapshots.yaml", "upstream", Severity.NOTE, "what upstream chooses: kept"),
    Rule("cases/upstream/*.yaml", "upstream", Severity.WARNING, "what became of upstream's test changes"),
    Rule(
        "cases/required/*.txt",
        "required",
        Severity.ERROR,
        "pytest --collect-only --update-required writes the list anew",
    ),
    Rule("harness/rows/data/gguf_presets.yaml", "preset", Severity.ERROR, "presets whose default it is"),
    Rule("harness/rows/data/*.yaml", "row", Severity.ERROR, "rows, or what rows say of it"),
    Rule("recipes/*", "recipe", Severity.ERROR, "runs and checkpoints made with it"),
    Rule("CHANGELOG.md", "docs", Severity.NOTE, "the past: kept"),
    Rule("*.md", "docs", Severity.ERROR, "documents that speak of it"),
    Rule("docs/*", "docs", Severity.ERROR, "documents and examples that speak of it"),
    Rule("*/tests/*", "test", Severity.WARNING, "tests that name it fail, or use it for something else"),
    Rule("*/test_*.py", "test", Severity.WARNING, "tests that name it fail, or use it for something else"),
    Rule("kernels/*/*/unit.yaml", "unit", Severity.ERROR, "units that need it: their products go with it"),
    Rule("kernels/common/*", "code", Severity.WARNING, "shared code that speaks of it"),
    Rule("kernels/*/*/*", "unit", Severity.WARNING, "units that speak of it"),
    Rule("*.yaml", "data", Severity.ERROR, "tables that hold it"),
    Rule("*", "code", Severity.ERROR, "code that treats it by name"),
)
"""The first that fits decides."""


def retire(tree: Path, name: str) -> tuple[str, tuple[Finding, ...]]:
    """The encoding that `name` means (`ggml.q8_0`, `q8_0` or its folder), and what names it in the tree, unit first.

    Works before and after the folder is deleted. Raises UsageProblem for a tree of another layout, and for a name that
    is neither a unit's nor a type's and that nothing says.
    """
    missing = [folder for folder in _OURS if not (tree / folder).is_dir()]
    if missing:
        raise UsageProblem(f"{tree} has no folder {missing[0]}: only a tree of this project can be searched")
    units = load_units(tree / "kernels")
    encoding = encoding_of(name, units)
    dialects = {known.partition(".")[0] for known in (*units, *_typed())}
    if not _ENCODING.fullmatch(encoding) or encoding.partition(".")[2] in dialects:
        raise UsageProblem(f"--retire {name!r}: wanted an encoding, such as ggml.q8_0")
    own = f"kernels/{encoding.replace('.', '/')}/"
    findings = [_unit_itself(encoding, own)] if encoding in units else []
    findings += _lonely_tables(encoding, units)
    findings += [found for found in _mentions(tree, encoding) if not found.evidence[0].startswith(own)]
    known = encoding in units or encoding in _typed()
    if not findings and not known:
        near = difflib.get_close_matches(encoding, sorted({*units, *_typed()}), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageProblem(f"no encoding is called {name!r}, and nothing names it{hint}")
    return encoding, tuple(findings)


def encoding_of(name: str, units: dict[str, Unit]) -> str:
    """`ggml.q8_0` for that, for `q8_0`, `Q8_0` and `kernels/ggml/q8_0/`."""
    plain = name.strip().rstrip("/").removeprefix("./").removeprefix("kernels/").replace("/", ".").lower()
    if "." in plain:
        return plain
    return next((found for found, unit in units.items() if unit.name == plain), f"ggml.{plain}")


def mention_of(encoding: str) -> re.Pattern[str]:
    """The words that mean the encoding: `q4_k`, `block_q4_k`, `QUANT-GGUF-Q4_K`, `test_q4_k_is_wrong`; not `Q4_K_M`.

    A name that is also an ordinary number type's (`f16`) counts only together with its dialect or in a row.
    """
    dialect, _, name = encoding.partition(".")
    either = f"(?:{re.escape(name)}|{re.escape(name.upper())})"
    before = r"(?<![A-Za-z0-9])"
    if name in TYPE_BYTES:
        before = rf"(?:(?<![A-Za-z0-9]){re.escape(dialect)}[./]|QUANT-GGUF-(?:PRESET-)?)"
    # A single letter or digit more is another name: Q4_K_M, q4_0_4_4.
    return re.compile(rf"{before}{either}(?![A-Za-z0-9])(?!_[A-Za-z0-9](?![a-z]))")


def _typed() -> frozenset[str]:
    return frozenset(entry.encoding for entry in ggml_types().values() if entry.encoding is not None)


def _unit_itself(encoding: str, own: str) -> Finding:
    return Finding(
        f"retire-unit:{own}", "unit", Severity.ERROR, encoding, "the unit: delete its folder", (own,)
    )


def _lonely_tables(encoding: str, units: dict[str, Unit]) -> list[Finding]:
    """Tables that no other unit of the dialect looks values up in."""
    if encoding not in units:
        return []
    found = units[encoding]
    others = {
        table
        for unit in units.values()
        if unit.dialect == found.dialect and unit.encoding != encoding
        for table in unit.tables.values()
    }
    return [
        Finding(
            f"retire-table:{table}",
            "table",
            Severity.ERROR,
            encoding,
            "a table that no other unit looks values up in, and its entry in tables.yaml",
            (f"kernels/{found.dialect}/tables/{table}.npy",),
        )
        for table in sorted(set(found.tables.values()) - others)
    ]


def _mentions(tree: Path, encoding: str) -> list[Finding]:
    pattern = mention_of(encoding)
    findings: dict[tuple[int, str], Finding] = {}
    for path in sorted(_files(tree)):
        relative = path.relative_to(tree).as_posix()
        lines = _lines(path, pattern)
        if not lines:
            continue
        place, rule = next((i, r) for i, r in enumerate(RULES) if fnmatchcase(relative, r.files))
        findings[place, relative] = Finding(
            f"retire-{rule.kind}:{relative}",
            rule.kind,
            rule.severity,
            encoding,
            rule.summary,
            tuple(f"{relative}:{line}" for line in lines),
        )
    order = list(Severity)
    return [
        findings[key] for key in sorted(findings, key=lambda key: (order.index(findings[key].severity), key))
    ]


def _lines(path: Path, pattern: re.Pattern[str]) -> list[int]:
    """The lines of a text file that the pattern is in; none of a file that is no text."""
    try:
        raw = path.read_bytes()
    except OSError:
        return []
    if b"\0" in raw[:8192]:
        return []
    text = raw.decode("utf-8", "replace")
    if not pattern.search(text):
        return []
    return [number for number, line in enumerate(text.split("\n"), start=1) if pattern.search(line)]


def _files(tree: Path) -> Iterator[Path]:
    """Files of the tree; not what is hidden, built, installed, or left behind by runs."""
    for folder, folders, names in os.walk(tree):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not (Path(folder) / name / "pyvenv.cfg").exists()
        ]
        yield from (Path(folder) / name for name in names if not name.startswith("."))
